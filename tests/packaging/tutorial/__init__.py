"""Follow a page of the documentation literally, as a reader would: in an empty folder, with bash, from top to bottom.

The convention for such a page, also in CONTRIBUTING.md:

- A `console` block has commands after "$ ". Each must exit with 0. A command that ends with a backslash goes on in the
  next line. The current folder, exported variables and the activated environment last from one command to the next.
- The other lines of a `console` block are output. Each must be a line of the real output, in this order; more lines in
  between are allowed. "..." in a line matches any text, and a line of "..." alone is there for the reader.
- A block in another language begins with a comment that names its file, relative to the current folder:
  `# shop/tasks.py` is the whole file, `# shop/tasks.py (add)` is appended to it, and `# mysite/settings.py (change)`
  replaces the names that the block binds, and adds its imports at the top. A `text` block is only shown.
- `manage.py runserver` and `manage.py runworker` without `--burst` stay in the foreground: each has a terminal of its
  own, and runs beside what follows. A block whose first line is `# the worker` or `# the server` shows what comes later
  in that terminal. Ctrl-C is pressed by a line "^C" in a block, by a paragraph with the words "Press Ctrl-C" (for the
  worker or the server if it names one), and at the end; the command must then exit with 0.
- After `$ python manage.py shell`, lines after ">>> " are typed at Python's prompt.
- Port 8000 stands for a free port, which is added to `runserver`.
- The page creates an administrator with `createsuperuser --noinput --username` and DJANGO_SUPERUSER_PASSWORD. At its
  end a job of a `tasks.py` that the page wrote must be shown as done in the admin.
"""
