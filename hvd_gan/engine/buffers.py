"""Buffers: variables that a step updates without a gradient, such as batch-norm moments."""

from __future__ import annotations

import tensorflow as tf

ASSIGNMENTS = {
    "Assign",
    "AssignAdd",
    "AssignSub",
    "AssignAddVariableOp",
    "AssignSubVariableOp",
    "AssignVariableOp",
}


def buffer_updates() -> dict[str, list[tf.Operation]]:
    """Each buffer's name and the operations that update it, in the current graph.

    Call it when the model is built and nothing else is: then whatever assigns to a variable, and
    does not initialise it, is the model's own update. Found by the assignments rather than in
    `UPDATE_OPS`, which Keras layers leave empty and other layers fill without regard to scope.
    """
    graph = tf.compat.v1.get_default_graph()
    variables = tf.compat.v1.global_variables()
    names = {variable.op.name for variable in variables}
    initializers = {variable.initializer for variable in variables}
    updates: dict[str, list[tf.Operation]] = {}
    for operation in graph.get_operations():
        if operation.type in ASSIGNMENTS and operation not in initializers:
            target = operation.inputs[0].op.name
            if target in names:
                updates.setdefault(target, []).append(operation)
    return updates
