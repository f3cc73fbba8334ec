"""Are tools found for everyday sentences, and does an answer say how good it is?

``python -m benchmarks.everyday --data DIR [--part dev|kept] [--failures] [--json FILE]`` asks the
300 sentences of ``sentences.jsonl`` over the demo's eleven servers, which it starts
(``bash scripts/demo`` installs them), and fifteen public ones, whose definitions it reads from the
datasets that ``catalogue.toml`` names. The sentences are written as people type: without the
tools' words, with pronouns, shorthand and halves, and forty that no tool answers. Each names all
tools that would do.

A third of each kind is *kept*: do not look at its single answers while you change the engine.
"""
