"""Every code block of the documentation is run, or parsed by the program that it is written for.

The conventions for authors. A block must have a language, and the language says how it is tried:

``python``
    Executed. The blocks of a page share their names, in the order of the page, and a page shares nothing with another.
    The project is `tests/docs/site`, with an app `shop` (models, tasks, views, hooks): import from it as readers would
    import from their own app, and add to it what a page needs. Given are `user`, `order` and `request`; everything else
    is imported or defined on the page. A name that is used inside a function must exist, too. At the end of the page,
    pending jobs are run; a TypeError, NameError or the like in one of them is a failure.

    - A comment with a path (``# shop/tasks.py``) at the start of a line begins a file: the code below it is executed as
      this module, so that other blocks can import from it.
    - Below ``# settings.py``, or where there are only assignments to names in capitals, the code is evaluated as
      settings (`...` in a list stands for what is there already), and the system checks of djqueue must report no
      error. The settings are not kept for the rest of the page.
    - A block that begins with ``# hello.py: … Run it with: python hello.py`` is a script, which may print no warning.
    - A block that defines tests (`test_…` functions, subclasses of TestCase) is run by pytest.
    - A block that begins with the name of another queue (``# Celery``) is only compiled.
``pycon``
    Run by doctest with the names of the page; `...` in the output matches any text.
``console``
    Commands after ``$ ``; other lines are output. ``bash``: a script. Commands of `manage.py` are parsed by their own
    argument parser, `make` and `python -m` must name something that exists, `pip install` a valid requirement. Programs
    that are not ours must be listed in `shell.OTHERS`.
``pyi``
    Signatures, as in a stub file. Parsed.
``toml``, ``json``, ``yaml``, ``ini``, ``dockerfile``, ``nginx``, ``html``, ``html+django``, ``css``, ``js``
    Parsed. An ``ini`` block that begins with ``# djqueue.service`` is verified by systemd-analyze, if it is installed.
``sql``
    Executed on PostgreSQL in a transaction that is rolled back; queries and changes of rows by EXPLAIN.
``mermaid``
    A diagram. ``text``: output, messages, usage; not tried, so it may contain no prompt and no Python.

``<!-- run the jobs -->`` on the line before a Python block runs the pending jobs first, as a worker would have.
``<!-- not run: REASON -->`` before a block is the way out. `test_blocks.MOST_NOT_RUN` keeps it rare.
``docs/tutorial.md`` is followed by a test of its own.
"""
