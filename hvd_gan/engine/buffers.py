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
    for assignments in updates.values():
        for assignment in assignments:
            _let_reads_go_first(assignment)
    return updates


def _let_reads_go_first(assignment: tf.Operation) -> None:
    """Orders every read of the buffer before its assignment, but those that follow from it.

    A step otherwise reads, from run to run, the old value or the new one: Keras' Dropout reads its
    seed once for the mask, and once more to move it. TensorFlow has no public way to order
    operations that exist already.
    """
    after: set[tf.Operation] = set()
    ahead = [assignment]
    while ahead:
        operation = ahead.pop()
        if operation not in after:
            after.add(operation)
            ahead += [c for output in operation.outputs for c in output.consumers()]
            ahead += operation._control_outputs
    readers = assignment.inputs[0].consumers()
    reads = [reader for reader in readers if reader.type == "ReadVariableOp"]
    assignment._add_control_inputs([read for read in reads if read not in after])
