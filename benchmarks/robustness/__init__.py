"""Does a misspelled name still find its tool, an exact one always, and nonsense nothing?

``python -m benchmarks.robustness --data DIR`` prints four tables:

- *names*: every tool of the catalogue asked for by its name, its id and its words; and names drawn
  with a seed, one random edit each, alone and in a sentence, among few tools and among all;
- *nothing*: the queries of ``nothing.txt``, which are gibberish or off-topic, at the default
  threshold;
- *survivors*: of the labelled queries whose right tool is among the first three without a
  threshold, the share that still returns it at the default one.
"""
