"""The invented world: names, sentences, documents and an encyclopedia, all from a seed."""
