"""Room on each page for renewals, and a vacuum that keeps up with a table whose rows all come and go."""

from django.db import migrations

SETTINGS = {
    "djqueue_job": "fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, "
    "autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0",
    "djqueue_throughput": "autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0",
}


def tune(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        for table, settings in SETTINGS.items():
            schema_editor.execute(f"ALTER TABLE {table} SET ({settings})")


class Migration(migrations.Migration):
    dependencies = [("djqueue", "0001_initial")]
    operations = [migrations.RunPython(tune, migrations.RunPython.noop, elidable=False)]
