class ToTheWrongPlace:
    """Sends what it is asked about to `default`: djqueue must not ask."""

    def db_for_read(self, model: object, **hints: object) -> str:
        return "default"

    def db_for_write(self, model: object, **hints: object) -> str:
        return "default"
