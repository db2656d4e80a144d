"""Tests epg_tf.records.saved_models: what is opened, what is refused, and that looking runs nothing."""

from __future__ import annotations

import os

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from epg_tf.records import saved_models
from epg_tf.records.files import RecordError

SPEC = [tf.TensorSpec([None, 2], tf.float32)]


class Harmless(tf.Module):
    def __init__(self):
        super().__init__()
        self.weight = tf.Variable(tf.ones([2, 2]))
        self.loss = tf.function(lambda x: tf.reduce_sum(tf.nn.relu(x @ self.weight), axis=1), input_signature=SPEC)


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


@pytest.fixture
def folder(tmp_path):
    return save(Harmless(), tmp_path / "model")


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


HOSTILE = {"WriteFile": write_file, "PrintV2": print_to_file, "ReadFile": lambda x: tf.strings.length(
    tf.io.read_file("/etc/passwd")), "EagerPyFunc": lambda x: tf.py_function(lambda y: y, [x], tf.float32),
    "PyFunc": lambda x: tf.numpy_function(lambda y: y, [x], tf.float32), "MatchingFiles": lambda x: tf.size(
        tf.io.matching_files("/*")), "RestoreV2": lambda x: tf.raw_ops.RestoreV2(
            prefix="x", tensor_names=["y"], shape_and_slices=[""], dtypes=[tf.float32])[0]}


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


def test_what_saves_and_restores_may_not_be_called(folder):
    """The functions that may touch files are exempt only as long as nothing but TensorFlow's saver names them."""
    def call_the_saver(model):
        graph = model.meta_graphs[0].graph_def
        name, = (f.signature.name for f in graph.library.function if "traced_save" in f.signature.name)
        calling, = (f for f in graph.library.function if f.signature.name.startswith("__inference_signature_wrapper"))
        node, = (n for n in calling.node_def if n.op == "StatefulPartitionedCall")
        node.attr["f"].func.name = name

    edit(folder, call_the_saver)
    assert "save and restore" in refusal(folder)


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
        node, = (node for node in graph.node if node.op == "StatefulPartitionedCall")
        saver.save_tensor_name, saver.restore_op_name = f"{node.name}:0", node.name

    edit(folder, declare)
    assert "WriteFile" in refusal(folder)


def set_name(model):
    model.meta_graphs[0].object_graph_def.nodes[0].registered_name = "Custom.Thing"


def set_identifier(model):
    model.meta_graphs[0].object_graph_def.nodes[0].user_object.identifier = "_tf_keras_layer"


@pytest.mark.parametrize(("change", "words"), [
    (set_name, "Custom.Thing"), (set_identifier, "_tf_keras_layer"),
    (lambda model: model.meta_graphs.add(), "2 graphs"), (lambda model: model.ClearField("meta_graphs"), "0 graphs"),
    (lambda model: model.meta_graphs[0].collection_def["init"].node_list.value.append("x"), "collections")])
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


@pytest.mark.parametrize("name", ["saved_model.pb", "variables/variables.index"])
def test_links_are_refused(folder, tmp_path, name):
    os.replace(folder / name, tmp_path / "elsewhere")
    (folder / name).symlink_to(tmp_path / "elsewhere")
    assert f"{name} is a link" in refusal(folder)


def test_damage_is_told(folder, tmp_path):
    assert "no saved_model.pb" in refusal(tmp_path)
    graph = folder / "saved_model.pb"
    graph.write_bytes(graph.read_bytes()[:-50])
    assert "damaged" in refusal(folder)


def test_lost_variables_are_told(folder):
    os.truncate(folder / "variables" / "variables.data-00000-of-00001", 3)
    assert "cannot be opened" in refusal(folder)


def test_oversized_files_are_refused_unread(folder, monkeypatch):
    with open(folder / "saved_model.pb", "r+b") as stream:
        stream.truncate(2**40)  # a hole, which takes no room
    assert "above the limit" in refusal(folder)


def test_a_model_appears_whole_or_not_at_all(tmp_path):
    """Foreign files stay; what fails leaves no graph that would go with other variables, and nothing unfinished."""
    (tmp_path / "notes.txt").write_text("mine")
    saved_models.write_saved_model(tmp_path, lambda folder: save(Harmless(), folder))
    saved_models.write_saved_model(tmp_path, lambda folder: save(Harmless(), folder))
    assert saved_models.open_saved_model(tmp_path) and (tmp_path / "notes.txt").read_text() == "mine"

    def fail(folder):
        save(Harmless(), folder)
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        saved_models.write_saved_model(tmp_path, fail)
    assert not (tmp_path / "saved_model.pb").exists()
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]
