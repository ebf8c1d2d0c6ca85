"""What a task file says: YAML, keys, schema, Python code, defaults."""
