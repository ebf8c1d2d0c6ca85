"""Reading answers from generated text: ordered lists of named rules, with the place where each one matched."""
