"""Answer extraction from generated text: ordered lists of named rules, with the position of each match."""
