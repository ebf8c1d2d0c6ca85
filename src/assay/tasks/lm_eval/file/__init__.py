"""Reading a task file: YAML, keys, schema, Python code, defaults."""
