"""llama.cpp's own server, from the package xllamacpp, for a Python that has it: FILE PORT SEQUENCES CONTEXT.

In: a GGUF file, a port, how many sequences it serves at once and the tokens of each. It listens on loopback, computes
in float32 throughout, and ends when its standard input closes.
"""

import os
import sys

import xllamacpp


def main() -> None:
    file, port, sequences, context = sys.argv[1], *map(int, sys.argv[2:5])
    settings = xllamacpp.CommonParams()
    settings.model.path = file
    settings.hostnames, settings.port = ["127.0.0.1"], port
    settings.n_parallel, settings.n_ctx = sequences, sequences * context
    # The default caches keys and values in 16 bits, which flash attention rounds to as well.
    settings.cache_type_k = settings.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    settings.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = os.cpu_count() or 1
    settings.verbosity = 0
    server = xllamacpp.Server(settings)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
