"""Staged adversarial training: graph, stages, ledger, train ops, trainer, checkpoints, monitors.

Knows no image and no model by name. Read in this order: `graph` (what a model returns), `stages`
(what moves when), `ledger` (the proof of it), `train_ops` (how it moves on many ranks), `program`
(all of it in one graph), `trainer` (the loop). `buffers`, `schedules`, `plateau`, `optimizers` and
`counters` are what a step is made of; `resuming` and `init_from` are about where a run starts;
`checkpoint_files` says which checkpoints can be trusted, `writing` how files are written.
"""
