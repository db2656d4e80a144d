"""Writes SavedModels completely or not at all, and checks what they would run before opening them.

A TensorFlow graph can read and write files and call Python. So before a SavedModel is opened, its
operations are compared with a list of those that only compute. This protects files and prevents
other code from running; it does not limit memory or time.
"""

from __future__ import annotations

import itertools
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.framework import node_def_pb2
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2

from epg_tf.core import files
from epg_tf.core.errors import RecordError

GRAPH_FILE = "saved_model.pb"
FILES = (GRAPH_FILE, "fingerprint.pb", "variables", "assets")
_READ = (*FILES, "debug", "assets.extra")  # what TensorFlow may read
_TEMPORARY = ".saved_model.{}.tmp"
_LIMIT = 256 * 2**20  # bytes of all files; the papers' losses and policies take 0.1 to 1 MB

_ALLOWED = frozenset(
    """
Placeholder Const Identity IdentityN NoOp StopGradient PreventGradient EnsureShape VarHandleOp
ReadVariableOp ResourceGather PartitionedCall StatefulPartitionedCall StatelessIf StatelessWhile If
While Abs Add AddN AddV2 Ceil Cos Cumsum Div DivNoNan Elu EluGrad Erf Exp Expm1 Floor FloorDiv
FloorMod Inv IsFinite IsInf IsNan LeakyRelu LeakyReluGrad Log Log1p Log1mExp Maximum Minimum Mod Mul
MulNoNan Neg Pow RealDiv Reciprocal ReciprocalGrad Relu Relu6 Relu6Grad ReluGrad Round Rsqrt
RsqrtGrad Selu SeluGrad Sigmoid SigmoidGrad Sign Sin Softmax LogSoftmax Softplus SoftplusGrad Sqrt
SqrtGrad Square SquaredDifference Sub Tan Tanh TanhGrad Xdivy Xlogy Equal Greater GreaterEqual Less
LessEqual LogicalAnd LogicalNot LogicalOr NotEqual Select SelectV2 ClipByValue All Any ArgMax ArgMin
Max Mean Min Prod Sum BatchMatMul BatchMatMulV2 Conv2D Conv2DBackpropFilter Conv2DBackpropInput
Einsum MatMul BiasAdd BiasAddGrad MatrixDiag MatrixDiagV3 MatrixDiagPartV3 BroadcastArgs
BroadcastGradientArgs BroadcastTo Cast Concat ConcatOffset ConcatV2 DynamicStitch ExpandDims Fill
Gather GatherNd GatherV2 InvertPermutation OneHot OnesLike Pack Pad PadV2 Range Rank Reshape
ReverseV2 ScatterNd Shape ShapeN Size Slice Split SplitV Squeeze StridedSlice StridedSliceGrad
TensorScatterUpdate Tile Transpose UnsortedSegmentSum Unpack Where ZerosLike Multinomial
RandomStandardNormal RandomUniform RandomUniformInt StatelessMultinomial StatelessRandomGetAlg
StatelessRandomGetKeyCounter StatelessRandomNormalV2 StatelessRandomUniformV2 Atan2 Cholesky
MatrixTriangularSolve
""".split()
)
# What the two functions that TensorFlow itself adds for saving and restoring use; nothing calls
# them here.
_SAVING = _ALLOWED | frozenset(
    "AssignVariableOp DisableCopyOnRead MergeV2Checkpoints RestoreV2 SaveV2 ShardedFilename "
    "StaticRegexFullMatch StringJoin".split()
)
_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
_OBJECTS = frozenset(
    (
        "_generic_user_object",
        "trackable_list_wrapper",
        "trackable_dict_wrapper",
        "trackable_tuple_wrapper",
        "signature_map",
    )
)
_KINDS = frozenset(("user_object", "variable", "function", "bare_concrete_function", "constant"))


def prepare_target(path: files.PathLike, overwrite: bool, markers: Sequence[str]) -> None:
    """Makes a folder that a SavedModel can be written to; removes the unfinished files of processes
    that were killed.

    Args:
      path: The folder; may be missing or empty.
      overwrite: Whether a model that is there is to be replaced; else the folder must be empty.
      markers: Names of files that show that a model of this program is there; a folder that holds
        something else is not overwritten.

    Raises:
      RecordError: It cannot be created or written to, or holds something else.
    """
    folder = Path(path)
    if folder.is_dir() and os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        for rest in folder.glob(_TEMPORARY.format("*")):
            shutil.rmtree(rest, ignore_errors=True)
        missing = [name for name in markers if not (folder / name).is_file()]
        if overwrite and missing and any(folder.iterdir()):
            raise RecordError(
                f"{folder}: only what this program wrote is overwritten, but {missing[0]} is not "
                "there; choose another folder"
            )
    files.prepare_folder(path, (), overwrite=overwrite)


def write_saved_model(folder: files.PathLike, write: Callable[[str], Any]) -> None:
    """Fills a folder with a SavedModel.

    The old one is set aside first and the new graph moved last: an incomplete model has no graph.

    Args:
      folder: Exists; of what it holds, only what has the same name is replaced, and only once all
      is written.
      write: Saves the model, and what belongs to it, into the folder it is given.

    Raises:
      RecordError: A file cannot be written or replaced. What was there is intact, unless the disk
        failed while files were renamed.
      Exception: Whatever else `write` raises. What was there is intact.
    """
    folder = Path(folder)
    temporary = folder / _TEMPORARY.format(os.getpid())
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir()
        write(str(temporary))
        # First the small files that tell a model of this program from a foreign folder.
        order = {path: (path.name == GRAPH_FILE, path.is_dir()) for path in temporary.iterdir()}
        with files.replaced(folder, [path.name for path in order]):
            for entry in sorted(order, key=order.__getitem__):
                os.replace(entry, folder / entry.name)
    except (OSError, tf.errors.OpError) as error:
        reason = getattr(error, "strerror", None) or files.one_line(error)[:200]
        raise RecordError(
            f"{folder}: cannot be written ({reason}); free some space, or choose another folder"
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def open_saved_model(folder: files.PathLike) -> Any:
    """Opens a SavedModel of unknown origin if it can only compute.

    Returns:
      What `tf.saved_model.load` returns.

    Raises:
      RecordError: It is damaged, not a SavedModel of TensorFlow 2, or could do more; one line.
    """
    check_saved_model(folder)
    # This import registers the distributions that saved policies refer to.
    import tensorflow_probability  # noqa: F401

    try:
        return tf.saved_model.load(str(folder))
    except Exception as error:  # damaged variables surface as anything
        raise RecordError(
            f"{folder}: the SavedModel cannot be opened ({files.one_line(error)[:200]}); restore "
            f"it from where it came"
        ) from error


def check_saved_model(folder: files.PathLike) -> None:
    """Checks a SavedModel without running any of it.

    Raises:
      RecordError: As `open_saved_model`, as far as can be seen without opening it.
    """
    folder = Path(folder)
    try:
        _check_files(folder)
        meta_graph = _parsed(folder / GRAPH_FILE)
        _check_objects(meta_graph)
        _check_operations(meta_graph)
    except RecordError as error:
        raise RecordError(
            f"{folder}: {error}; open only SavedModels from sources that you trust"
        ) from error
    except OSError as error:
        raise RecordError(f"{folder}: {error.strerror}; check the path") from error


def _check_files(folder: Path) -> None:
    if not (folder / GRAPH_FILE).is_file():
        raise RecordError(f"the folder holds no {GRAPH_FILE}, so it is no SavedModel")
    size = 0
    for name in _READ:
        for path in itertools.chain(
            [folder / name], (folder / name).rglob("*")
        ):  # lazily: a link is not walked
            mode = path.lstat().st_mode if os.path.lexists(path) else stat.S_IFDIR
            if stat.S_ISLNK(mode):
                raise RecordError(f"{path.relative_to(folder)} is a link, which may lead anywhere")
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                raise RecordError(f"{path.relative_to(folder)} is neither a file nor a folder")
            size += path.stat().st_size if stat.S_ISREG(mode) else 0
    if any((folder / "assets").glob("*")):
        raise RecordError("it brings assets, which no loss or policy needs")
    if size > _LIMIT:
        raise RecordError(f"its files take {size} bytes, above the limit of {_LIMIT}")


def _parsed(path: Path) -> meta_graph_pb2.MetaGraphDef:
    model = saved_model_pb2.SavedModel()
    try:
        model.ParseFromString(path.read_bytes())
    except DecodeError as error:
        raise RecordError(f"{GRAPH_FILE} is damaged ({files.one_line(error)})") from error
    if len(model.meta_graphs) != 1 or not model.meta_graphs[0].object_graph_def.nodes:
        raise RecordError(
            f"{GRAPH_FILE} holds {len(model.meta_graphs)} graphs or no objects; TensorFlow 2 "
            f"writes one graph with objects"
        )
    meta_graph = model.meta_graphs[0]
    if meta_graph.asset_file_def or set(meta_graph.collection_def) - {"saved_model_main_op"}:
        raise RecordError("it has assets or collections, which no loss or policy needs")
    return meta_graph


def _check_objects(meta_graph: meta_graph_pb2.MetaGraphDef) -> None:
    for node in meta_graph.object_graph_def.nodes:
        kind = node.WhichOneof("kind")
        what = node.user_object.identifier if kind == "user_object" else kind
        if kind not in _KINDS or (kind == "user_object" and what not in _OBJECTS):
            raise RecordError(
                f"it holds an object of kind {what!r}, which is not on the list of harmless ones"
            )
        if node.registered_name or node.registered_saver:
            raise RecordError(
                f"it holds an object of a registered class, "
                f"{node.registered_name or node.registered_saver!r}"
            )


def _check_operations(meta_graph: meta_graph_pb2.MetaGraphDef) -> None:
    """Refuses nodes that do more than compute.

    The bodies of the two functions that save and restore may do more, so nothing may call them:
    neither other nodes (as operation or in an attribute), nor objects, nor gradients (which nodes
    name by a string), nor signatures and the main operation (which name a node).
    """
    graph, library = meta_graph.graph_def, meta_graph.graph_def.library
    functions = {function.signature.name: function.node_def for function in library.function}
    saver = meta_graph.saver_def
    names = {name.split(":")[0] for name in (saver.save_tensor_name, saver.restore_op_name)}
    savers = [node for node in graph.node if node.name in names and node.op in _CALLS]
    saving = {node.attr["f"].func.name for node in savers}
    running = [node for node in graph.node if node not in savers]
    running += [node for name, body in functions.items() if name not in saving for node in body]
    saver_bodies = [node for name in saving for node in functions.get(name, ())]
    for where, nodes, allowed in (("", running, _ALLOWED), ("for saving, ", saver_bodies, _SAVING)):
        if forbidden := sorted({node.op for node in nodes} - allowed - set(functions)):
            raise RecordError(
                f"{where}its graph uses {', '.join(forbidden[:5])}, not on the list of operations "
                f"that only compute"
            )
    called = _called(running) | {node.op for node in running}
    called |= {name for node in meta_graph.object_graph_def.nodes for name in _functions_of(node)}
    called |= {
        name
        for gradient in library.gradient
        for name in (gradient.function_name, gradient.gradient_func)
    }
    called |= {gradient.gradient_func for gradient in library.registered_gradients}
    called |= {
        function.name
        for node in savers
        for name, value in node.attr.items()
        if name != "f"
        for function in (value.func, *value.list.func)
    }
    reached = {name.lstrip("^").split(":")[0] for node in running for name in node.input}
    reached |= {
        tensor.name.split(":")[0]
        for signature in meta_graph.signature_def.values()
        for tensor in (*signature.inputs.values(), *signature.outputs.values())
    }
    reached |= {
        name.split(":")[0]
        for collection in meta_graph.collection_def.values()
        for name in collection.node_list.value
    }
    if called & saving or reached & {node.name for node in savers}:
        raise RecordError("its graph calls the functions that save and restore files")
    if len({node.name for node in graph.node}) < len(graph.node):
        raise RecordError("its graph has several nodes of one name")


def _called(nodes: Iterable[node_def_pb2.NodeDef]) -> set[str]:
    """Returns the functions that nodes name in their attributes."""
    return {
        function.name
        for node in nodes
        for value in node.attr.values()
        for function in (value.func, *value.list.func)
        if function.name
    }


def _functions_of(node: Any) -> Iterable[str]:
    """Returns the functions that an object of a SavedModel can run."""
    if node.WhichOneof("kind") == "function":
        return node.function.concrete_functions
    return (
        [node.bare_concrete_function.concrete_function_name]
        if node.HasField("bare_concrete_function")
        else []
    )
