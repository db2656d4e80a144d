"""Writes SavedModels whole or not at all, and opens them only after a look at what they would run.

A TensorFlow graph can read and write files and call Python. So before a SavedModel is opened its operations are
compared with a list of those that only compute. That keeps it from files and code, not from taking memory or time.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.framework import node_def_pb2
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2

from epg_tf.records import files

GRAPH_FILE = "saved_model.pb"
FILES = (GRAPH_FILE, "fingerprint.pb", "variables", "assets")
_LIMIT = 256 * 2**20  # bytes of all files; the papers' losses and policies take 0.1 to 1 MB

_ALLOWED = frozenset("""
Placeholder Const Identity IdentityN NoOp StopGradient PreventGradient EnsureShape
VarHandleOp ReadVariableOp ResourceGather
PartitionedCall StatefulPartitionedCall StatelessIf StatelessWhile If While
Abs Add AddN AddV2 Ceil Cos Cumsum Div DivNoNan Elu EluGrad Erf Exp Expm1 Floor FloorDiv FloorMod Inv IsFinite IsInf
IsNan LeakyRelu LeakyReluGrad Log Log1p Log1mExp Maximum Minimum Mod Mul MulNoNan Neg Pow RealDiv Reciprocal
ReciprocalGrad Relu Relu6 Relu6Grad ReluGrad Round Rsqrt RsqrtGrad Selu SeluGrad Sigmoid SigmoidGrad Sign Sin Softmax
LogSoftmax Softplus SoftplusGrad Sqrt SqrtGrad Square SquaredDifference Sub Tan Tanh TanhGrad Xdivy Xlogy
Equal Greater GreaterEqual Less LessEqual LogicalAnd LogicalNot LogicalOr NotEqual Select SelectV2 ClipByValue
All Any ArgMax ArgMin Max Mean Min Prod Sum BatchMatMul BatchMatMulV2 Conv2D Conv2DBackpropFilter Conv2DBackpropInput
Einsum MatMul BiasAdd BiasAddGrad MatrixDiag MatrixDiagV3 MatrixDiagPartV3
BroadcastArgs BroadcastGradientArgs BroadcastTo Cast Concat ConcatOffset ConcatV2 DynamicStitch ExpandDims Fill Gather
GatherNd GatherV2 InvertPermutation OneHot OnesLike Pack Pad PadV2 Range Rank Reshape ReverseV2 ScatterNd Shape ShapeN
Size Slice Split SplitV Squeeze StridedSlice StridedSliceGrad TensorScatterUpdate Tile Transpose UnsortedSegmentSum
Unpack Where ZerosLike
Multinomial RandomStandardNormal RandomUniform RandomUniformInt StatelessMultinomial StatelessRandomGetAlg
StatelessRandomGetKeyCounter StatelessRandomNormalV2 StatelessRandomUniformV2
""".split())
# What the two functions that TensorFlow itself adds for saving and restoring use; nothing calls them here.
_SAVING = _ALLOWED | frozenset("AssignVariableOp DisableCopyOnRead MergeV2Checkpoints RestoreV2 SaveV2 ShardedFilename "
                               "StaticRegexFullMatch StringJoin".split())
_OBJECTS = frozenset(("_generic_user_object", "trackable_list_wrapper", "trackable_dict_wrapper",
                      "trackable_tuple_wrapper", "signature_map"))
_KINDS = frozenset(("user_object", "variable", "function", "bare_concrete_function", "constant"))


def write_saved_model(folder: files.PathLike, write: Callable[[str], Any]) -> None:
    """Fills a folder with a SavedModel; its graph appears last, so that half of one is never taken for a whole.

    Args:
      folder: Exists; of what it holds, only what has the same name is replaced.
      write: Saves the model, and what belongs to it, into the folder it is given.

    Raises:
      OSError: A file cannot be written; the graph of before, if any, may be gone, but is not mixed with new variables.
    """
    folder = Path(folder)
    (folder / GRAPH_FILE).unlink(missing_ok=True)
    temporary = folder / f".saved_model.{os.getpid()}.tmp"
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        write(str(temporary))
        for entry in sorted(temporary.iterdir(), key=lambda path: path.name == GRAPH_FILE):
            target = folder / entry.name
            if target.is_dir() and not target.is_symlink():
                shutil.rmtree(target)
            os.replace(entry, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def open_saved_model(folder: files.PathLike) -> Any:
    """Opens a SavedModel of unknown origin, if all it can do is compute.

    Returns:
      What `tf.saved_model.load` returns.

    Raises:
      RecordError: It is damaged, not a SavedModel of TensorFlow 2, or could do more; one line.
    """
    check_saved_model(folder)
    try:
        return tf.saved_model.load(str(folder))
    except Exception as error:  # damaged variables surface as anything
        raise files.RecordError(f"{folder}: the SavedModel cannot be opened ({files.one_line(error)[:200]}); restore "
                                f"it from where it came") from error


def check_saved_model(folder: files.PathLike) -> None:
    """Looks at a SavedModel without running any of it.

    Raises:
      RecordError: As `open_saved_model`, as far as can be seen without opening it.
    """
    folder = Path(folder)
    try:
        _check_files(folder)
        meta_graph = _parsed(folder / GRAPH_FILE)
        _check_objects(meta_graph)
        _check_operations(meta_graph)
    except files.RecordError as error:
        raise files.RecordError(f"{folder}: {error}; open SavedModels only from whom you trust") from error
    except OSError as error:
        raise files.RecordError(f"{folder}: {error.strerror}; check the path") from error


def _check_files(folder: Path) -> None:
    if not (folder / GRAPH_FILE).is_file():
        raise files.RecordError(f"the folder holds no {GRAPH_FILE}, so it is no SavedModel")
    size = 0
    for name in FILES:
        for path in (folder / name, *sorted((folder / name).rglob("*"))):
            if path.is_symlink():
                raise files.RecordError(f"{path.relative_to(folder)} is a link, which may lead anywhere")
            if path.is_file():
                size += path.stat().st_size
    if any((folder / "assets").glob("*")):
        raise files.RecordError("it brings assets, which no loss or policy needs")
    if size > _LIMIT:
        raise files.RecordError(f"its files take {size} bytes, above the limit of {_LIMIT}")


def _parsed(path: Path) -> meta_graph_pb2.MetaGraphDef:
    model = saved_model_pb2.SavedModel()
    try:
        model.ParseFromString(path.read_bytes())
    except DecodeError as error:
        raise files.RecordError(f"{GRAPH_FILE} is damaged ({files.one_line(error)})") from error
    if len(model.meta_graphs) != 1 or not model.meta_graphs[0].object_graph_def.nodes:
        raise files.RecordError(f"{GRAPH_FILE} holds {len(model.meta_graphs)} graphs or no objects; TensorFlow 2 "
                                f"writes one graph with objects")
    meta_graph = model.meta_graphs[0]
    if meta_graph.asset_file_def or set(meta_graph.collection_def) - {"saved_model_main_op"}:
        raise files.RecordError("it has assets or collections, which no loss or policy needs")
    return meta_graph


def _check_objects(meta_graph: meta_graph_pb2.MetaGraphDef) -> None:
    for node in meta_graph.object_graph_def.nodes:
        kind = node.WhichOneof("kind")
        what = node.user_object.identifier if kind == "user_object" else kind
        if kind not in _KINDS or (kind == "user_object" and what not in _OBJECTS):
            raise files.RecordError(f"it holds an object of kind {what!r}, which is not on the list of harmless ones")
        if node.registered_name or node.registered_saver:
            raise files.RecordError(f"it holds an object of a registered class, "
                                    f"{node.registered_name or node.registered_saver!r}")


def _check_operations(meta_graph: meta_graph_pb2.MetaGraphDef) -> None:
    graph, saver = meta_graph.graph_def, meta_graph.saver_def
    functions = {function.signature.name: function.node_def for function in graph.library.function}
    saver_nodes = {name.split(":")[0] for name in (saver.save_tensor_name, saver.restore_op_name)}
    saving = {name for node in graph.node if node.name in saver_nodes for name in _called([node])}
    named = {name for node in meta_graph.object_graph_def.nodes for name in _functions_of(node)}
    named |= {name for gradient in graph.library.gradient for name in (gradient.function_name, gradient.gradient_func)}
    running = [node for node in graph.node if node.name not in saver_nodes]
    running += [node for name, body in functions.items() if name not in saving for node in body]
    for where, nodes, allowed in (("", running, _ALLOWED),
                                  ("for saving, ", [n for name in saving for n in functions.get(name, ())], _SAVING)):
        if forbidden := sorted({node.op for node in nodes} - allowed - set(functions)):
            raise files.RecordError(f"{where}its graph uses {', '.join(forbidden[:5])}, not on the list of operations "
                                    f"that only compute")
    if (named | _called(running) | {node.op for node in running}) & saving:
        raise files.RecordError("its graph calls the functions that save and restore files")


def _called(nodes: Iterable[node_def_pb2.NodeDef]) -> set[str]:
    """Returns the functions that nodes name in their attributes."""
    return {function.name for node in nodes for value in node.attr.values()
            for function in (value.func, *value.list.func) if function.name}


def _functions_of(node) -> Iterable[str]:
    """Returns the functions that an object of a SavedModel can be asked to run."""
    if node.WhichOneof("kind") == "function":
        return node.function.concrete_functions
    return [node.bare_concrete_function.concrete_function_name] if node.HasField("bare_concrete_function") else []
