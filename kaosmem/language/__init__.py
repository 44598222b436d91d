"""Texts in any language: terms, sentences, dates, words about the past, standing rules, corrections."""
