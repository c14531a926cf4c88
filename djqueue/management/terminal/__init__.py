"""The subcommands of `manage.py djqueue`: one module each, with `add_arguments`, `run` and a docstring for its help."""
