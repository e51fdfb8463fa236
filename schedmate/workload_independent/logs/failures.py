"""The last lines of jobs that did not end well: the cause, under what others say because of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from schedmate.workload.types import FailureTruth, Generated, moment
from schedmate.workload_independent.draws import Draw
from schedmate.workload_independent.logs.scene import Ending, Scene, everywhere, stamp, told, traceback
from schedmate.workload_independent.settings import Draft


def ending_of(job: Generated[Draft], start_s: float, nodes: tuple[str, ...], draw: Draw) -> Ending:
    """How the log ends."""
    truth = job.truth
    end_s = start_s + truth.duration_s
    scene = Scene(job, end_s, nodes, draw.whole(0, job.ask.gpus - 1), draw)
    if truth.outcome == "timeout":
        return _timeout(scene)
    if truth.outcome == "cancelled":
        return Ending(tail=_cancelled(scene), before_training=truth.steps_done == 0)
    if truth.outcome != "failed" or truth.failure is None:
        return Ending()
    return _CAUSES[truth.failure](scene)


def _cancelled(scene: Scene) -> str:
    if "sbatch" in scene.job.ask.command or "srun" in scene.job.ask.command:
        return (
            f"\nslurmstepd: error: *** JOB {scene.job.ask.job_id} ON {scene.nodes[0]} CANCELLED AT {stamp(scene)} ***\n"
        )
    return "\nTraceback (most recent call last):\nKeyboardInterrupt\n" if scene.draw.chance(0.5) else ""


def _timeout(scene: Scene) -> Ending:
    line = (
        f"slurmstepd: error: *** JOB {scene.job.ask.job_id} ON {scene.nodes[0]} CANCELLED AT "
        f"{stamp(scene)} DUE TO TIME LIMIT ***"
    )
    truth = FailureTruth(
        failure="time_limit",
        category="scheduler-or-preemption",
        subcategory="time-limit",
        actions=("resubmit_longer_limit", "requeue_from_checkpoint"),
        ranks=(),
        nodes=(),
        lines=(line,),
    )
    return Ending(tail=f"\n{line}\n", truth=truth)


def _import_error(scene: Scene) -> Ending:
    module = scene.draw.one(("flash_attn", "timm", "peft", "apex", "pycocotools", "wandb", "einops", "libcudnn"))
    line = (
        "ImportError: libcudnn_cnn_infer.so.8: cannot open shared object file: No such file or directory"
        if module == "libcudnn"
        else f"ModuleNotFoundError: No module named '{module}'"
    )
    category = "framework" if module == "libcudnn" else "user-code"
    truth = everywhere(told(scene, category, "environment", ("fix_environment",), line))
    return Ending(traceback(scene, line), truth=truth, before_training=True)


def _bad_path(scene: Scene) -> Ending:
    place = f"/data/{scene.job.recipe.project.dataset.name}/trian"
    line = f"FileNotFoundError: [Errno 2] No such file or directory: '{place}'"
    return Ending(
        traceback(scene, line),
        truth=everywhere(told(scene, "user-code", "missing-file", ("fix_config", "fix_code"), line)),
        before_training=True,
    )


def _bad_argument(scene: Scene) -> Ending:
    line = scene.draw.one(
        (
            f"{scene.entry}: error: unrecognized arguments: --lr-sched cosine",
            "KeyError: 'warmup'",
            "TypeError: __init__() got an unexpected keyword argument 'dropuot'",
            "AttributeError: 'types.SimpleNamespace' object has no attribute 'ema'",
        )
    )
    tail = f"usage: {scene.entry} [-h] [--data DATA]\n{line}\n" if "unrecognized" in line else traceback(scene, line)
    return Ending(
        tail,
        truth=everywhere(told(scene, "user-code", "config", ("fix_config", "fix_code"), line)),
        before_training=True,
    )


def _gpu_oom(scene: Scene) -> Ending:
    wanted = scene.draw.between(0.2, 6)
    line = (
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {wanted:.2f} GiB. GPU "
        f"{scene.rank % 8} has a total capacity of "
        f"79.15 GiB of which {wanted * scene.draw.between(0.1, 0.9):.2f} GiB is free."
    )
    style = scene.job.recipe.project.style
    if style == "flax":
        line = (
            "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate "
            f"{int(wanted * 2**30)} bytes."
        )
    elif style == "keras":
        line = (
            "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor "
            "with shape[512,256,112,112]"
        )
    deeper = "/opt/conda/lib/python3.11/site-packages/torch/nn/modules/module.py"
    return Ending(
        traceback(scene, line, deeper, deeper),
        truth=everywhere(told(scene, "resource-request", "gpu-oom", ("lower_gpu_memory",), line)),
    )


def _shape(scene: Scene) -> Ending:
    low, high = scene.draw.one(((512, 2048), (384, 768), (10, 100)))
    line = f"RuntimeError: mat1 and mat2 shapes cannot be multiplied (64x{low} and {high}x10)"
    deeper = "/opt/conda/lib/python3.11/site-packages/torch/nn/modules/linear.py"
    return Ending(
        traceback(scene, line, deeper),
        truth=everywhere(told(scene, "user-code", "shape", ("fix_code", "fix_config"), line)),
    )


def _nan(scene: Scene) -> Ending:
    line = f"ValueError: loss is nan at step {scene.job.truth.steps_done}, stopping"
    actions = ("rollback_and_investigate", "fix_config", "fix_code", "fallback_to_previous_checkpoint")
    return Ending(traceback(scene, line), truth=everywhere(told(scene, "user-code", "divergence", actions, line)))


def _bad_sample(scene: Scene) -> Ending:
    line = (
        "PIL.UnidentifiedImageError: cannot identify image file "
        f"'/data/{scene.job.recipe.project.dataset.name}/{scene.draw.whole(1000, 99999)}.jpg'"
    )
    if scene.job.recipe.project.model.is_language:
        line = (
            "json.decoder.JSONDecodeError: Expecting ',' delimiter: line 1 column "
            f"{scene.draw.whole(40, 900)} (char {scene.draw.whole(900, 9000)})"
        )
    deeper = "/opt/conda/lib/python3.11/site-packages/torch/utils/data/_utils/fetch.py"
    return Ending(
        traceback(scene, line, deeper), truth=told(scene, "data", "corrupt-sample", ("fix_data_or_skip",), line)
    )


def _host_oom(scene: Scene) -> Ending:
    line = (
        f"slurmstepd: error: Detected 1 oom_kill event in StepId={scene.job.ask.job_id}.0. Some of the "
        "step tasks have been OOM Killed."
    )
    kernel = (
        f"[{scene.draw.between(1e5, 9e6):.6f}] "
        f"oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=job_{scene.job.ask.job_id},"
        f"task_memcg=/slurm/uid_2011/job_{scene.job.ask.job_id}/step_0,task=python,pid=22904,uid=2011\n"
    )
    tail = f"\nRuntimeError: DataLoader worker (pid 22911) is killed by signal: Killed. \n{line}\n"
    truth = everywhere(
        told(scene, "resource-request", "host-oom", ("raise_host_memory_or_reduce",), line, kernel.strip())
    )
    return Ending(tail, {f"dmesg-{scene.node}.txt": kernel}, truth)


def _quota(scene: Scene) -> Ending:
    line = f"OSError: [Errno 122] Disk quota exceeded: '/scratch/{scene.user}/ckpt/last.pt'"
    return Ending(
        traceback(scene, line), truth=everywhere(told(scene, "storage", "quota", ("free_storage_then_retry",), line))
    )


def _nccl(scene: Scene) -> Ending:
    """A link fails between two nodes: which of them is at fault nobody can tell from one side."""
    here, card = scene.nodes[0], scene.draw.whole(0, 7)
    cause = (
        f"{here}:22904:23011 [{card}] ibvwrap.c:94 NCCL WARN Call to ibv_poll_cq failed: transport "
        "retry counter exceeded, "
        f"status=12, vendor err=129, peer {scene.nodes[-1]}"
    )
    line = (
        f"[rank{card}]:[E{moment(scene.end_s):%m%d %H:%M:%S}.518000 ProcessGroupNCCL.cpp:616] [Rank "
        f"{card}] Watchdog caught "
        "collective operation timeout: WorkNCCL(SeqNum=88213, OpType=ALLREDUCE, NumelIn=6553600, "
        "Timeout(ms)=600000) ran for "
        "600037 milliseconds before timing out."
    )
    actions = ("retry_with_backoff", "cordon_node_and_restart", "restart_same_nodes")
    truth = told(scene, "infrastructure-network", "ib", actions, cause, line)
    return Ending(f"\n{cause}\n{line}\n", truth=everywhere(truth))


def _xid(scene: Scene) -> Ending:
    card = scene.rank % 8
    kernel = (
        f"[{scene.draw.between(1e5, 9e6):.6f}] NVRM: Xid (PCI:0000:{0x10 + card * 9:02x}:00): 79, "
        "pid=22904, name=python, GPU has fallen off the bus."
    )
    echo = "RuntimeError: CUDA error: unspecified launch failure"
    truth = told(scene, "infrastructure-hardware", "gpu-lost", ("cordon_node_and_restart",), kernel, node=True)
    return Ending(traceback(scene, echo), {f"dmesg-{scene.node}.txt": kernel + "\n"}, truth)


def _node_lost(scene: Scene) -> Ending:
    line = (
        f"slurmstepd: error: *** JOB {scene.job.ask.job_id} ON {scene.nodes[0]} CANCELLED AT "
        f"{stamp(scene)} DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***"
    )
    truth = told(
        scene,
        "infrastructure-hardware",
        "node-failure",
        ("retry_with_backoff", "cordon_node_and_restart", "requeue_from_checkpoint"),
        line,
    )
    return Ending(f"\n{line}\n", truth=everywhere(truth))


_CAUSES: Mapping[str, Callable[[Scene], Ending]] = {
    "import_error": _import_error,
    "bad_path": _bad_path,
    "bad_argument": _bad_argument,
    "gpu_oom": _gpu_oom,
    "shape_mismatch": _shape,
    "nan_loss": _nan,
    "bad_sample": _bad_sample,
    "host_oom": _host_oom,
    "disk_quota": _quota,
    "nccl_timeout": _nccl,
    "xid": _xid,
    "node_lost": _node_lost,
}
