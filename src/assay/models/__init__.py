"""Models: every kind of model behind one protocol, opened by name. In: requests. Out: outputs.

May import: `assay.core`, `assay.stats` and `assay.guard`. torch and transformers are imported only inside functions, so
listing models costs nothing. Sub-layers, from top to bottom; each imports only what is below it:

    model_decorator      `@assay.model`: functions and classes as models with a name
    model_registry       model names to opened models; `aliases` resolves paths, Hub ids and lm-eval's names
    hf | http | ngram | dummy  the models: hf/{decoder,seq2seq,encoder}, http/ for those behind a server
    engine | training    inference over a prefix tree; fine-tuning
    inference            padded batches: log-likelihoods and generation
    loading              arguments, checkpoint files, fingerprint, tokenizer, weights, quantisation
    tokens               text to token ids and back, chat templates
    download             Hub, package index, GGUF conversion, file hashes
    runtime              process-wide settings of torch and transformers
"""
