"""The systems that are compared, one module each. They run in the environments of their systems, so they import nothing
but the standard library, the system, and each other."""
