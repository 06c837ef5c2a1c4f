// SPDX-License-Identifier: Apache-2.0
// How programs say that others are the cause, which signal or scheduler ended them, and that the
// error is their own: the third part of the table.
#include "measure/failure/failure_int.h"

static const char other_rank[] = "check the other ranks' output: the first failure is the cause";

const struct failure_signature failure_signatures_ended[] = {
    // Others are the cause.
    {"nccl-timeout", FAILURE_COMMUNICATION, "a collective timed out: another rank did not join",
     other_rank,
     "Watchdog caught collective operation timeout\n"
     "Some NCCL operations have failed or timed out\nfailed to pass monitoredBarrier in\n"
     "watchdog got stuck for\nHeartbeat monitor timed out\n"
     "due to ProcessGroupNCCL watchdog hang\n] Timeout at NCCL work: ",
     RANK_SYMPTOM + 1},
    {"duplicate-gpu", FAILURE_CRASH, "two ranks use the same GPU",
     "start no more ranks than GPUs (--nproc_per_node, CUDA_VISIBLE_DEVICES), and call "
     "torch.cuda.set_device(local_rank) before the first collective",
     "Duplicate GPU detected", RANK_SETUP, false, true},
    {"nccl", FAILURE_COMMUNICATION, "NCCL failed", other_rank,
     "NCCL error\nunhandled system error\nunhandled cuda error\nncclSystemError\n"
     "ncclInternalError\nncclRemoteError\ntorch.distributed.DistBackendError\n"
     "NCCL communicator was aborted\nNCCL WARN&failed : \n"
     "NCCL WARN&Connection closed by remote peer\nNET/IB&Got completion from peer\n"
     "NET/IB&Got completion with error\nBootstrap : no socket interface found\n"
     "Message truncated : received ",
     RANK_SYMPTOM},
    {"gloo", FAILURE_COMMUNICATION, "another rank disappeared: a connection was lost", other_rank,
     "gloo/transport\nGloo connectFullMesh failed\n^RuntimeError: Connection reset by peer\n"
     "^RuntimeError: Broken pipe\n^RuntimeError: Connection refused\n^ConnectionResetError\n"
     "^BrokenPipeError\n^ConnectionRefusedError\n^torch.distributed.DistNetworkError",
     RANK_SYMPTOM},
    {"port-in-use", FAILURE_COMMUNICATION, "the port is in use, perhaps by a leftover process",
     "use another --master_port (MASTER_PORT), or --rdzv-endpoint localhost:0; ss -tlnp shows "
     "which process has it",
     "EADDRINUSE\nAddress already in use\naddress already in use\n"
     "The server socket has failed to listen on any local network",
     RANK_SYMPTOM + 1},
    {"rendezvous", FAILURE_COMMUNICATION, "the ranks did not find each other",
     "check MASTER_ADDR, MASTER_PORT and firewalls; NCCL_SOCKET_IFNAME names the adapter",
     "Timed out initializing process group in store based "
     "barrier\nRendezvousTimeoutError\nRendezvousConnectionError\nRendezvousClosedError\n"
     "The client socket has timed out\nDistStoreError\n^RuntimeError: Socket Timeout\n"
     "Timeout waiting for key: default_pg\nThe connection to the C10d store has failed",
     RANK_SYMPTOM},
    {"child-failed", FAILURE_COMMUNICATION,
     "the launcher only reports that a rank ended; the rank's own output shows why",
     "look at the output of the first rank named: torchrun --log-dir DIR --tee 3 keeps it, @record "
     "around main() puts its traceback into the summary",
     "ChildFailedError\nCalledProcessError: Command '&returned non-zero exit status\n"
     "^subprocess.CalledProcessError\n^CalledProcessError\n^torch."
     "multiprocessing.spawn.Process\n"
     "^terminate called without an active exception\nRoot Cause (first observed failure):\n"
     "torchelastic.worker.status.FAILED\nCHILD PROCESS FAILED WITH NO ERROR_FILE\n"
     "multiprocessing&failed (exitcode: \n] exits with return code = \n"
     "Horovod has been shut down\n^Primary job  terminated normally, but \n"
     "mpirun&detected that one or more processes exited with non-zero status\n"
     "BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n"
     "srun: error: &: Exited with exit code \nActorDiedError\nActorUnavailableError\n"
     "ray.exceptions.RayActorError\nThe actor is dead because its worker process has died\n"
     "WorkerCrashedError\nwhile executing a task by an unexpected system error",
     RANK_LAUNCHER},
    {"engine-failed", FAILURE_COMMUNICATION,
     "only reports that the inference engine's process died",
     "the lines of EngineCore or WorkerProc above show why",
     "Engine core initialization failed\nEngineDeadError: EngineCore encountered an issue\n"
     "EngineCore encountered a fatal error\nEngine core proc & died unexpectedly\n"
     "Worker proc & died unexpectedly\nEngine process (pid & died\nEngine loop has died\n"
     "MQLLMEngine is already dead",
     RANK_LAUNCHER},

    // Signals.
    {"crash", FAILURE_KILLED, "crashed in native code", "PYTHONFAULTHANDLER=1 shows where",
     "is killed by signal: Segmentation fault\n^Fatal Python error: Segmentation fault\n"
     " (SIGSEGV) received by PID\n^Segmentation fault\n Segmentation fault  \nsegmentation fault "
     "(core dumped)\n Floating point exception  \n Illegal instruction  \nstatus 3221225477\nexit "
     "status 139\nSegmentation fault (core dumped)\n"
     "(exitcode: -11)\nexits with return code = -11$\n terminated with signal SIGSEGV\n"
     "exited on signal 11 \nsrun: error: &: Segmentation fault\n"
     "Illegal instruction (core dumped)\nfinished with exit code 139\nexited with code 139\n"
     "exit code: 139\nExit Code: 139\nExited (139) \n"
     "finished with exit code -1073741819\nSignal: Segmentation fault (11)\ndied with "
     "<Signals.SIGSEGV: \n"
     "Unexpected segmentation fault encountered in worker",
     RANK_KILLED},
    {"abort", FAILURE_KILLED, "native code aborted", "the last lines may say why",
     "is killed by signal: Aborted\n^Fatal Python error: \n (SIGABRT) received by PID\n^Aborted$\n"
     " Aborted  \nstatus 3221226505\nexit status 134\nAborted (core dumped)\n(exitcode: -6)\nexits "
     "with return code = -6$\n"
     "died with <Signals.SIGABRT: \nexited on signal 6 \n"
     "^terminate called after throwing an instance of \n^free(): invalid \n^double free or "
     "corruption\n^corrupted \n^malloc(): \n^munmap_chunk(): ",
     RANK_SYMPTOM - 2},
    {"killed", FAILURE_KILLED, "killed, by an unknown sender",
     "usually the kernel, for memory: dmesg | grep -i 'killed process'; else a job scheduler",
     "^Killed$\n^Killed: 9$\n Killed  \n (SIGKILL) received by PID\nis killed by signal: Killed\n"
     "(exitcode: -9)\nexits with return code = -9$\n^zsh: killed \n^죽었음$\n 죽었음  \n"
     "exited with code 137\n terminated with signal SIGKILL\n"
     "A process in the process pool was terminated abruptly\ndied with <Signals.SIGKILL: \n"
     "exit status 137\nexit code 137\nexit code: 137\nexit code -9\nExitCode: 137\nExit Code: "
     "137\nExited (137) "
     "\nexited on signal 9 \n"
     "srun: error: &: Killed\nKILLED BY SIGNAL: 9\n"
     "Canceled future for execute_request message before replies were done",
     RANK_KILLED - 2},
    {"worker-exited", FAILURE_KILLED, "a loader worker died without a message",
     "--workers 0 shows its error; dmesg | grep -i 'killed process' shows whether memory ran out",
     "DataLoader worker (pid& exited unexpectedly\n^Exception in background worker \nbackground "
     "workers are no longer alive\n"
     "DataLoader worker (pid&is killed by signal: Terminated",
     RANK_SYMPTOM - 1},
    {"interrupted", FAILURE_KILLED, "it was interrupted",
     "by a user, a job scheduler or a lost terminal: restart it from its newest checkpoint",
     "^KeyboardInterrupt\n^Terminated$\n"
     "(exitcode: -15)\nexits with return code = -15$\n"
     "SignalException: Process & got signal:\ndeath signal, shutting down workers\nslurmstepd: & "
     "CANCELLED AT \n"
     "] Main process received SIGINT\n] Main process received SIGTERM",
     RANK_LAUNCHER - 1},
    // A scheduler that did not start it.
    {"job-refused", FAILURE_CRASH, "the job scheduler refused what was asked for",
     "sinfo -O Partition,Gres,CPUs,Memory,Time lists what a node of each partition has; ask for no "
     "more of it (GPU type and number, CPUs, memory, time), and for the account and partition that "
     "you may use",
     "sbatch: error: Batch job submission failed\nsrun: error: Unable to allocate resources\n"
     "srun: error: Unable to create step for job\nsalloc: error: Job submit/allocate failed\n"
     "Error: sbatch: error: \nsbatch: fatal: \nsrun: fatal: \nsalloc: fatal: ",
     RANK_OWN + 1},
    {"job-waits", FAILURE_CRASH, "no node has what it asks for, and the log ends there",
     "kubectl describe nodes, ray status or sinfo show what is there and who holds it: wait, ask "
     "for less, or add a node; nvidia.com/gpu missing there means no device plugin",
     "FailedScheduling&nodes are available\nnodes are available: &Insufficient \n"
     "No available node types can fulfill resource request\ncannot be scheduled right now",
     RANK_WARNED},
    // What a scheduler did explains all that programs print when they are stopped.
    {"time-limit", FAILURE_KILLED, "the job scheduler's time limit ended it",
     "ask for a longer limit (sbatch --time), or save before it comes (sbatch --signal=USR1@300) "
     "and restart from the newest checkpoint",
     " CANCELLED AT &DUE TO TIME LIMIT\nPBS: job killed: walltime \n"
     "job killed after reaching LSF run time limit\nTERM_RUNLIMIT: \n"
     "active on the node longer than the specified deadline\nState: TIMEOUT (\n"
     "JobState=TIMEOUT",
     RANK_KILLED - 1},
    {"preempted", FAILURE_KILLED, "the job scheduler stopped it for another job, or to requeue it",
     "restart it from its newest checkpoint (sbatch --requeue does so by itself); a partition or "
     "queue that is not preempted",
     " CANCELLED AT &DUE TO PREEMPTION\n CANCELLED AT &DUE TO JOB REQUEUE\n"
     "Preempted in order to admit\nPreempted by &on node \nState: PREEMPTED (\n"
     "JobState=PREEMPTED",
     RANK_KILLED - 1},
    {"node-failed", FAILURE_KILLED, "the machine that it ran on failed or was lost",
     "restart it from its newest checkpoint on another node, and tell the "
     "administrators",
     " CANCELLED AT &DUE TO NODE FAIL\nsrun: error: Node failure on \n(node failure)\n"
     "Node is not ready\nTaint manager&deletion of pod\nState: NODE_FAIL (\n"
     "JobState=NODE_FAIL",
     RANK_KILLED - 1},
    {"signal", FAILURE_KILLED, "ended by a signal", "", NULL, RANK_STATUS + 1},

    // The program's own errors for which the usual help is known.
    {"state-dict", FAILURE_CRASH, "the checkpoint is of another model",
     "use the model's settings with which it was saved (classes, widths, vocabulary: "
     "resize_token_embeddings); strict=False, or only the weights that fit, where that is meant",
     "Error(s) in loading state_dict for", RANK_OWN},
    {"state-dict-warned", FAILURE_CRASH, "a checkpoint is of another model, and the log ends there",
     "use the model's settings with which it was saved (classes, widths, vocabulary: "
     "resize_token_embeddings)",
     "size mismatch for &copying a param with shape", RANK_WARNED},
    {"checkpoint-broken", FAILURE_CRASH, "a checkpoint cannot be read: cut off, or no checkpoint",
     "the size of the file (git lfs pull, if it is a pointer), the one before it, or a new "
     "download",
     "PytorchStreamReader failed\n_pickle.UnpicklingError: invalid load key\n"
     "unexpected EOF, expected &more bytes. The file might be corrupted\n"
     "SafetensorError: Error while deserializing",
     RANK_OWN},
    {"weights-only", FAILURE_CRASH,
     "a checkpoint holds more than weights, which torch.load refuses",
     "torch.load(..., weights_only=False) for a file that you trust, or add_safe_globals",
     "Weights only load failed", RANK_OWN},
    {"cuda-fork", FAILURE_CRASH, "a forked process, usually a loader worker, uses CUDA",
     "keep the dataset's tensors on the CPU; or multiprocessing_context='spawn' (set_start_method)",
     "Cannot re-initialize CUDA in forked subprocess\nCUDA error: initialization error", RANK_OWN},
    {"compile", FAILURE_CRASH, "torch.compile could not compile the model",
     "TORCH_COMPILE_DISABLE=1 runs it without; a C compiler (gcc); the lines above name the code",
     "torch._dynamo.exc.\ntorch._inductor.exc.\ntorch._inductor.graph: [ERROR]\n"
     "LoweringException: \nbackend='&' raised:\n"
     "Failed to find C compiler\nCannot find a working triton installation",
     RANK_OWN + 1},
    {"shapes", FAILURE_CRASH, "the sizes of a layer and its input do not match",
     "compare features, channels, classes and sequence length in the config with the data",
     "shapes cannot be multiplied\nsize mismatch, m1: \nThe size of tensor a (&must match\n"
     "Sizes of tensors must match except in dimension\nto match target batch_size (\n"
     "The expanded size of the tensor (&must match the existing size\n"
     "expected input[&to have &channels, but got\nmat1 dim 1 must match mat2 dim 0\n"
     "Kernel size can't be greater than actual input size\nInput &doesn't match model (",
     RANK_OWN},
    {"wrong-device", FAILURE_CRASH, "a tensor is on a different device from the model",
     "call .to(device) on the inputs and on tensors created in the forward pass",
     "Expected all tensors to be on the same device\n"
     "Input type (&and weight type (&should be the same",
     RANK_OWN},
    {"unused-parameters", FAILURE_CRASH, "DDP waits for gradients of parameters that were not used",
     "set find_unused_parameters=True, or remove those parameters",
     "Expected to have finished reduction in the prior iteration", RANK_OWN},
    {"no-grad", FAILURE_CRASH, "the loss depends on nothing that trains",
     "where gradient checkpointing meets frozen weights (LoRA): "
     "model.enable_input_require_grads(), or use_reentrant=False; else look at requires_grad and "
     "no_grad",
     "does not require grad and does not have a grad_fn", RANK_OWN},
    {"unscale-fp16", FAILURE_CRASH, "the weights that train are fp16, which no loss scaler takes",
     "load them in fp32 and let autocast use fp16 (with LoRA: the adapter's); or train in bf16",
     "Attempting to unscale FP16 gradients", RANK_OWN},
    {"precisions", FAILURE_CRASH, "tensors of different precision meet",
     "autocast around the whole forward pass, evaluation too; or load the model and its inputs in "
     "one precision",
     "must have the same dtype\nto have the same dtype, but got\nexpected scalar type &but found ",
     RANK_OWN},
    {"index-range", FAILURE_CRASH, "an index is beyond the end of an embedding",
     "compare the token ids with the vocabulary (new tokens: resize_token_embeddings), and the "
     "sequence length with the positions that the model has",
     "^IndexError: index out of range in self", RANK_OWN},
    // On a GPU: device-assert.
    {"label-range", FAILURE_CRASH, "a label is out of the range of classes",
     "compare the labels with the number of classes: they count from 0; ignore_index is for what "
     "has no label",
     "^IndexError: Target & is out of bounds\n^RuntimeError: Assertion `cur_target >= 0\n"
     "Class values must be smaller than num_classes",
     RANK_OWN},
    {"collate", FAILURE_CRASH, "the samples of a batch differ in size",
     "pad, cut or resize them: a collate_fn, DataCollatorWithPadding, padding=True and "
     "truncation=True",
     "stack expects each tensor to be equal size\n"
     "Unable to create tensor, you should probably activate truncation",
     RANK_OWN},
    {"pad-token", FAILURE_CRASH, "the tokenizer has no padding token",
     "tokenizer.pad_token = tokenizer.eos_token, before the data are tokenized",
     "the tokenizer does not have a padding token", RANK_OWN},
    {"worker-pickle", FAILURE_CRASH, "an object cannot be sent to a worker process",
     "define it at the top level of a module (no lambda, no local function); or fork the workers, "
     "or use none",
     "Can't pickle local object\nCan't pickle <\n^TypeError: cannot pickle '", RANK_OWN},
    {"meta-tensor", FAILURE_CRASH, "weights have no data: they were offloaded, or never loaded",
     "device_map=\"auto\" puts on the CPU or disk what the GPU does not hold: fewer bits, a "
     "smaller model, or no device_map for a training; with FSDP gather the full state dict",
     "Cannot copy out of meta tensor", RANK_OWN},
    {"deepspeed-batch", FAILURE_CRASH, "DeepSpeed's batch settings contradict each other",
     "train_batch_size = train_micro_batch_size_per_gpu x gradient_accumulation_steps x GPUs: "
     "leave one out, or set all to \"auto\"; a world size of 1 means no launcher was used",
     "Check batch related parameters", RANK_OWN},

    {"no-operator", FAILURE_CRASH, "this kind of device lacks an operator of the model",
     "PYTORCH_ENABLE_MPS_FALLBACK=1 runs it on the CPU of a Mac; a newer PyTorch; or move that "
     "part to the CPU",
     "is not currently implemented for the &device\nis not current implemented for the &device\n"
     "Could not run 'aten::&with arguments from the '&' backend",
     RANK_OWN + 1},
    {"inplace", FAILURE_CRASH, "a tensor that backward needs was changed in place",
     "torch.autograd.set_detect_anomaly(True) names the operation: write x = x + y for x += y, and "
     "inplace=False",
     "has been modified by an inplace operation", RANK_OWN},
    {"backward-twice", FAILURE_CRASH, "backward ran twice over the same graph",
     "detach what is kept from step to step (hidden states, losses), or one backward for the sum; "
     "retain_graph=True only where both are meant",
     "Trying to backward through the graph a second time", RANK_OWN},
    {"no-main-guard", FAILURE_CRASH, "a worker process started the whole script again",
     "put the training under if __name__ == \"__main__\": (Windows and macOS start workers this "
     "way), or "
     "use no workers",
     "current process has finished its bootstrapping phase.", RANK_OWN + 1},
    // The rest.
    {"own-error", FAILURE_CRASH, "the program's own error",
     "see the last lines: the last frame in your own files is where to look", NULL, RANK_OWN},
    // Of a type that Python itself does not raise for a mistake in a program.
    {"unknown-error", FAILURE_CRASH, "an error that batchfit does not know",
     "read it and the lines above it; if it does not say enough, send the whole output with stderr "
     "(2>&1), and the versions (pip freeze, nvidia-smi)",
     NULL, RANK_OWN},
    {"foreign-error", FAILURE_CRASH, "an error of a program that is not Python",
     "read it and the lines around it; if they do not say enough, send the whole output with "
     "stderr "
     "(2>&1)",
     "^lua: &.lua:\nluajit: &.lua:\n^ERROR: LoadError: \n^thread '&panicked at \n^panic: \n"
     "^Exception in thread \"&Exception\n^Exception in thread \"&Error\n^Error in &) : ",
     RANK_STATUS + 1},
    {"exit-status", FAILURE_CRASH, "failed without a known message", "the last lines may say why",
     NULL, RANK_STATUS},
    {"clean", FAILURE_CLEAN, "ended normally", "", NULL, RANK_CLEAN},
    {0},
};
