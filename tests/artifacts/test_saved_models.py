"""Tests epg_tf.artifacts.saved_models: what is opened, what is refused, and that looking runs
nothing.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from epg_tf.artifacts import saved_models
from epg_tf.core.errors import RecordError

SPEC = [tf.TensorSpec([None, 2], tf.float32)]


class Harmless(tf.Module):
    def __init__(self):
        super().__init__()
        self.weight = tf.Variable(tf.ones([2, 2]))
        self.loss = tf.function(
            lambda x: tf.reduce_sum(tf.nn.relu(x @ self.weight), axis=1), input_signature=SPEC
        )


def save(module, folder):
    tf.saved_model.save(module, str(folder), signatures=module.loss.get_concrete_function())
    return folder


def with_function(function):
    """Returns a module whose loss also does what `function` does to a scalar."""
    module = Harmless()
    module.loss = tf.function(lambda x: function(tf.reduce_sum(x)), input_signature=SPEC)
    return module


def refusal(folder) -> str:
    with pytest.raises(RecordError) as raised:
        saved_models.open_saved_model(folder)
    message = str(raised.value)
    assert message.startswith(f"{folder}: ") and ";" in message and "\n" not in message
    return message


@pytest.fixture(scope="module")
def harmless(tmp_path_factory):
    return save(Harmless(), tmp_path_factory.mktemp("harmless") / "model")


@pytest.fixture
def folder(harmless, tmp_path):
    """A copy, to be edited or damaged."""
    return shutil.copytree(harmless, tmp_path / "model")


def edit(folder, change) -> None:
    """Rewrites the graph as `change` leaves it."""
    path, model = folder / "saved_model.pb", saved_model_pb2.SavedModel()
    model.ParseFromString(path.read_bytes())
    change(model)
    path.write_bytes(model.SerializeToString())


def test_what_only_computes_is_opened_and_differentiable(folder):
    loaded, x = saved_models.open_saved_model(folder), tf.constant([[1.0, 2.0]])
    with tf.GradientTape() as tape:
        tape.watch(x)
        total = loaded.loss(x)
    np.testing.assert_array_equal(total, [6.0])
    np.testing.assert_array_equal(tape.gradient(total, x), [[2.0, 2.0]])


def write_file(x):
    tf.io.write_file("written", "by a graph")
    return x


def print_to_file(x):
    tf.print(x, output_stream="file://written")
    return x


def in_a_branch(x):
    return tf.cond(x > 0.0, lambda: write_file(x), lambda: x)


def in_a_loop(x):
    return tf.while_loop(lambda y: y < 0.0, lambda y: (write_file(y) + 1.0,), [x])[0]


@tf.custom_gradient
def in_a_gradient(x):
    return tf.identity(x), write_file


HOSTILE = {
    "WriteFile": write_file,
    "PrintV2": print_to_file,
    "ReadFile": lambda x: tf.strings.length(tf.io.read_file("/etc/passwd")),
    "EagerPyFunc": lambda x: tf.py_function(lambda y: y, [x], tf.float32),
    "PyFunc": lambda x: tf.numpy_function(lambda y: y, [x], tf.float32),
    "MatchingFiles": lambda x: tf.size(tf.io.matching_files("/*")),
    "RestoreV2": lambda x: tf.raw_ops.RestoreV2(
        prefix="x", tensor_names=["y"], shape_and_slices=[""], dtypes=[tf.float32]
    )[0],
}


@pytest.mark.parametrize("operation", HOSTILE)
def test_operations_that_reach_beyond_the_graph_are_refused(tmp_path, operation):
    module = with_function(HOSTILE[operation])
    assert operation in refusal(save(module, tmp_path / "model"))


@pytest.mark.parametrize("hide", [in_a_branch, in_a_loop, in_a_gradient])
def test_they_are_found_wherever_they_hide(tmp_path, monkeypatch, hide):
    monkeypatch.chdir(tmp_path)
    module = with_function(hide)
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=True)
    tf.saved_model.save(module, str(tmp_path / "model"), options=options)
    assert "WriteFile" in refusal(tmp_path / "model") and not (tmp_path / "written").exists()


def saver_function(graph) -> str:
    (name,) = (
        function.signature.name
        for function in graph.library.function
        if "traced_save" in function.signature.name
    )
    return name


def by_attribute(meta_graph):
    name = saver_function(meta_graph.graph_def)
    (calling,) = (
        function
        for function in meta_graph.graph_def.library.function
        if function.signature.name.startswith("__inference_signature_wrapper")
    )
    (node,) = (node for node in calling.node_def if node.op == "StatefulPartitionedCall")
    node.attr["f"].func.name = name


def by_operation(meta_graph):
    node = meta_graph.graph_def.node.add(name="innocent")
    node.op = saver_function(meta_graph.graph_def)


def by_object(meta_graph):
    node = meta_graph.object_graph_def.nodes.add()
    node.bare_concrete_function.concrete_function_name = saver_function(meta_graph.graph_def)


def by_function_object(meta_graph):
    node = next(n for n in meta_graph.object_graph_def.nodes if n.WhichOneof("kind") == "function")
    node.function.concrete_functions[0] = saver_function(meta_graph.graph_def)


def by_gradient(meta_graph):
    library = meta_graph.graph_def.library
    library.registered_gradients.add(
        gradient_func=saver_function(meta_graph.graph_def), registered_op_type="Any"
    )


def by_old_gradient(meta_graph):
    library = meta_graph.graph_def.library
    library.gradient.add(function_name="any", gradient_func=saver_function(meta_graph.graph_def))


def by_signature(meta_graph):
    meta_graph.signature_def["serving_default"].outputs[
        "x"
    ].name = meta_graph.saver_def.save_tensor_name


def by_main_operation(meta_graph):
    meta_graph.collection_def["saved_model_main_op"].node_list.value.append(
        meta_graph.saver_def.restore_op_name
    )


def by_control_input(meta_graph):
    meta_graph.graph_def.node.add(
        name="innocent", op="NoOp", input=[f"^{meta_graph.saver_def.restore_op_name}"]
    )


@pytest.mark.parametrize(
    "call",
    [
        by_attribute,
        by_operation,
        by_object,
        by_function_object,
        by_gradient,
        by_old_gradient,
        by_signature,
        by_main_operation,
        by_control_input,
    ],
)
def test_what_saves_and_restores_may_not_be_called(folder, call):
    """The functions that may touch files are exempt only as long as nothing but TensorFlow's saver
    names them.
    """
    edit(folder, lambda model: call(model.meta_graphs[0]))
    assert "calls the functions that save and restore" in refusal(folder)


@tf.custom_gradient
def with_a_writing_gradient(x):
    def gradient(upstream):
        tf.raw_ops.SaveV2(
            prefix="written", tensor_names=["a"], shape_and_slices=[""], tensors=[upstream]
        )
        return upstream

    return tf.identity(x), gradient


def test_a_gradient_cannot_pass_for_the_saver(tmp_path):
    """Nodes name gradients by a string only; one that is listed at the saver's node is not thereby
    exempt.
    """
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=True)
    tf.saved_model.save(
        with_function(with_a_writing_gradient), str(tmp_path / "model"), options=options
    )

    def list_it(model):
        graph = model.meta_graphs[0].graph_def
        (node,) = (node for node in graph.node if "traced_save" in node.attr["f"].func.name)
        for gradient in graph.library.registered_gradients:
            node.attr["extra"].list.func.add(name=gradient.gradient_func)
            assert gradient.gradient_func

    edit(tmp_path / "model", list_it)
    assert "SaveV2" in refusal(tmp_path / "model")


def test_a_saving_node_that_calls_nothing_is_checked_like_others(folder):
    def replace(model):
        meta_graph = model.meta_graphs[0]
        meta_graph.graph_def.node.add(name="evil/write", op="WriteFile")
        meta_graph.saver_def.restore_op_name = "evil/write"

    edit(folder, replace)
    assert "WriteFile" in refusal(folder)


def test_nodes_of_one_name_are_refused(folder):
    edit(folder, lambda model: model.meta_graphs[0].graph_def.node.add(name="NoOp", op="NoOp"))
    assert "several nodes of one name" in refusal(folder)


def test_a_saver_that_is_none_is_no_excuse(tmp_path):
    """A graph that declares its own function the saver still may not write what it likes."""
    folder = save(with_function(write_file), tmp_path / "model")

    def declare(model):
        meta_graph = model.meta_graphs[0]
        graph, saver = meta_graph.graph_def, meta_graph.saver_def
        for part in (graph.node, graph.library.function):
            for entry in list(part):
                name = entry.attr["f"].func.name if part is graph.node else entry.signature.name
                if "traced_" in name:
                    part.remove(entry)
        (node,) = (node for node in graph.node if node.op == "StatefulPartitionedCall")
        saver.save_tensor_name, saver.restore_op_name = f"{node.name}:0", node.name

    edit(folder, declare)
    assert "WriteFile" in refusal(folder)


def set_name(model):
    model.meta_graphs[0].object_graph_def.nodes[0].registered_name = "Custom.Thing"


def set_identifier(model):
    model.meta_graphs[0].object_graph_def.nodes[0].user_object.identifier = "_tf_keras_layer"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (set_name, "Custom.Thing"),
        (set_identifier, "_tf_keras_layer"),
        (lambda model: model.meta_graphs.add(), "2 graphs"),
        (lambda model: model.ClearField("meta_graphs"), "0 graphs"),
        (
            lambda model: model.meta_graphs[0].collection_def["init"].node_list.value.append("x"),
            "collections",
        ),
    ],
)
def test_other_parts_are_checked_too(folder, change, words):
    edit(folder, change)
    assert words in refusal(folder)


def test_assets_are_refused(tmp_path):
    (tmp_path / "words.txt").write_text("a")
    module = Harmless()
    module.asset = tf.saved_model.Asset(str(tmp_path / "words.txt"))
    assert "assets" in refusal(save(module, tmp_path / "model"))


def test_tables_are_refused(tmp_path):
    module = Harmless()
    keys = tf.lookup.KeyValueTensorInitializer(["a"], [1.0])
    module.table = tf.lookup.StaticHashTable(keys, 0.0)
    assert "resource" in refusal(save(module, tmp_path / "model"))


def test_a_linked_folder_is_refused_unwalked(folder, tmp_path, monkeypatch):
    os.replace(folder / "variables", tmp_path / "elsewhere")
    (folder / "variables").symlink_to(tmp_path / "elsewhere")
    walked, rglob = [], Path.rglob
    monkeypatch.setattr(
        Path,
        "rglob",
        lambda self, pattern: (walked.append(self.name) or path for path in rglob(self, pattern)),
    )
    assert "variables is a link" in refusal(folder) and "variables" not in walked


def a_link(path):
    os.replace(path, path.parents[1] / "elsewhere")
    path.symlink_to(path.parents[1] / "elsewhere")


def a_pipe(path):
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def a_hole(path):
    path.parent.mkdir(exist_ok=True)
    with open(path, "ab") as stream:
        stream.truncate(2**40)  # takes no room


GRAPH, INDEX, DEBUG = (
    "saved_model.pb",
    "variables/variables.index",
    "debug/saved_model_debug_info.pb",
)
VALUES = "variables/variables.data-00000-of-00001"


@pytest.mark.parametrize(
    ("spoil", "name", "words"),
    [
        *((a_link, name, f"{name} is a link") for name in (GRAPH, INDEX)),
        *((a_pipe, name, f"{name} is neither a file nor a folder") for name in (INDEX, DEBUG)),
        *((a_hole, name, "above the limit") for name in (GRAPH, DEBUG)),
        (lambda path: path.unlink(), GRAPH, "no saved_model.pb"),
        (lambda path: os.truncate(path, path.stat().st_size - 50), GRAPH, "damaged"),
        (lambda path: os.truncate(path, 3), VALUES, "cannot be opened"),
    ],
)
def test_files_that_are_none_or_damaged_are_refused_unread(folder, spoil, name, words):
    spoil(folder / name)
    assert words in refusal(folder)


@pytest.fixture
def fill(harmless):
    """A function: a folder -> a model is in it."""
    return lambda folder: shutil.copytree(harmless, folder, dirs_exist_ok=True)


def test_a_model_is_replaced_by_a_whole_one_or_not_at_all(tmp_path, fill):
    """Foreign files stay; what fails leaves the old model and nothing unfinished."""
    (tmp_path / "notes.txt").write_text("mine")
    for _ in range(2):
        saved_models.write_saved_model(tmp_path, fill)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    def fail(folder):
        fill(folder)
        (Path(folder) / "saved_model.pb").write_bytes(b"another")
        raise OSError("disk full")

    with pytest.raises(RecordError, match=r"cannot be written \(disk full\); free some space"):
        saved_models.write_saved_model(tmp_path, fail)
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert (
        saved_models.open_saved_model(tmp_path) and (tmp_path / "notes.txt").read_text() == "mine"
    )


def test_a_model_in_folders_that_are_not_writable_stays(tmp_path, monkeypatch, fill):
    saved_models.write_saved_model(tmp_path, fill)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    monkeypatch.setattr(os, "access", lambda path, mode: "variables" not in str(path))
    with pytest.raises(RecordError, match="variables: the folder is not writable"):
        saved_models.write_saved_model(tmp_path, fill)
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


def test_only_a_model_is_overwritten(tmp_path):
    def prepare(overwrite):
        saved_models.prepare_target(tmp_path / "out", overwrite, ["README.md"])

    prepare(False)
    (tmp_path / "out" / ".saved_model.123.tmp").mkdir()  # of a process that was killed
    prepare(False)
    assert not list((tmp_path / "out").iterdir())
    (tmp_path / "out" / "thesis.tex").write_text("mine")
    with pytest.raises(RecordError, match="README.md is not there") as caught:
        prepare(True)
    assert str(caught.value).startswith(f"{tmp_path / 'out'}: ")
    (tmp_path / "out" / "README.md").write_text("ours")
    prepare(True)
    assert (tmp_path / "out" / "thesis.tex").read_text() == "mine"
