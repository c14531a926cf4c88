"""Settings of the example project: SQLite in this directory, or the database of DATABASE_URL."""

from pathlib import Path

import django
import environ

BASE_DIR = Path(__file__).resolve().parent
env = environ.Env()

SECRET_KEY = env("SECRET_KEY", default="only-for-the-example")
DEBUG = env.bool("DEBUG", default=True)
ALLOWED_HOSTS = ["localhost", "127.0.0.1"]
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "djqueue",
    "example_project.shop",
    "example_project.demo",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "example_project.shop.middleware.content_security_policy",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
ROOT_URLCONF = "example_project.urls"
STATIC_URL = "static/"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "example_project.demo.login.shown",
            ]
        },
    }
]

DATABASES = {"default": env.db("DATABASE_URL", default=f"sqlite:///{BASE_DIR / 'example.sqlite3'}")}
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    # For several processes on one SQLite file: readers do not block the writer, and writers wait for each other.
    DATABASES["default"]["OPTIONS"] = {
        "transaction_mode": "IMMEDIATE",
        "timeout": 20,
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL",
    }
    # A file instead of memory, so that tests can run a worker in threads.
    DATABASES["default"]["TEST"] = {"NAME": f"{DATABASES['default']['NAME']}.test"}

DJQUEUE = {
    "QUEUES": {
        "mail": {"max_attempts": 5, "backoff_base": 1},
    },
    "SHUTDOWN_GRACE": env.float("SHUTDOWN_GRACE", default=30),
}

# Mails are written to files in this folder; without it, they are discarded.
MAIL_FOLDER = env("MAIL_FOLDER", default="")
MAIL_BACKEND = f"django.core.mail.backends.{'filebased' if MAIL_FOLDER else 'dummy'}.EmailBackend"
if django.VERSION >= (6, 1):
    MAILERS = {"default": {"BACKEND": MAIL_BACKEND, "OPTIONS": {"file_path": MAIL_FOLDER} if MAIL_FOLDER else {}}}
else:
    EMAIL_BACKEND, EMAIL_FILE_PATH = MAIL_BACKEND, MAIL_FOLDER
DEFAULT_FROM_EMAIL = "The tea shop <shop@example.com>"

# Where the shop sends its orders: a partner's server, which is played by this site itself.
PARTNER_URL = env("PARTNER_URL", default="http://127.0.0.1:8000/partner/")
# Slow work is played by sleeping. 1 is the usual pace, 0 does not sleep.
SHOP_PACE = env.float("SHOP_PACE", default=1.0)
