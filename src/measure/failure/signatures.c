// SPDX-License-Identifier: Apache-2.0
// How programs say that they end: the table alone. Every row has a captured text in tests/failures/
// whose first line says which program and version printed it.
#include "measure/failure/failure_int.h"

static const char smaller[] = "a smaller batch; batchfit explain shows what else saves memory";
static const char fewer[] = "a smaller batch, fewer loader workers",
                  larger_shm[] = "docker run --shm-size=8g (or --ipc=host), fewer loader workers";
static const char offline[] = "check the connection and its proxy; or download it beforehand and "
                              "set HF_HUB_OFFLINE=1 (HF_ENDPOINT names a mirror)";
static const char other_rank[] = "check the other ranks' output: the first failure is the cause";

const struct failure_signature failure_signatures[] = {
    // The GPU's memory.
    {"cuda-oom", FAILURE_MEMORY, "the GPU's memory ran out (PyTorch's CUDA allocator)", smaller,
     "CUDA out of memory. Tried to allocate\n^torch.OutOfMemoryError\n"
     "^torch.cuda.OutOfMemoryError\n^OutOfMemoryError: CUDA\nOutOfMemoryError: Allocation on "
     "device",
     RANK_MEMORY},
    {"hip-oom", FAILURE_MEMORY, "the GPU's memory ran out (PyTorch's HIP allocator)", smaller,
     "HIP out of memory. Tried to allocate\nHSA_STATUS_ERROR_OUT_OF_RESOURCES\nHIP error: out of "
     "memory\nhipErrorOutOfMemory",
     RANK_MEMORY + 1},
    {"xpu-oom", FAILURE_MEMORY, "the GPU's memory ran out (PyTorch's XPU allocator)", smaller,
     "XPU out of memory. Tried to allocate\ncan NOT allocate memory block with size larger than\n"
     "UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY\nZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY\n"
     "PI_ERROR_OUT_OF_RESOURCES\nUR_RESULT_ERROR_OUT_OF_RESOURCES",
     RANK_MEMORY + 1},
    {"other-oom", FAILURE_MEMORY, "the device's memory ran out (a vendor's PyTorch)", smaller,
     " out of memory. Tried to allocate", RANK_MEMORY - 2},
    {"mps-oom", FAILURE_MEMORY, "the memory available to Metal ran out (PyTorch's MPS allocator)",
     smaller, "MPS backend out of memory (\nkIOGPUCommandBufferCallbackErrorOutOfMemory",
     RANK_MEMORY},
    {"cuda-driver-oom", FAILURE_MEMORY,
     "the driver could not allocate memory (context, pinned memory, or another process holds the "
     "GPU)",
     "nvidia-smi shows who else holds the GPU; a smaller batch, fewer pinned buffers",
     "CUDA error: out of memory\nCUDA driver error: out of memory\ncuda runtime error (2) : out of "
     "memory\n"
     "CUDA_ERROR_OUT_OF_MEMORY\ncudaErrorMemoryAllocation\nout_of_memory: CUDA error\n"
     "cudaMalloc&out of memory\nCUDA failure 2: out of memory",
     RANK_MEMORY - 1},
    {"cupy-oom", FAILURE_MEMORY, "the GPU's memory ran out (CuPy)", smaller,
     "OutOfMemoryError: Out of memory allocating \nOutOfMemoryError: out of memory to allocate ",
     RANK_MEMORY},
    {"paddle-oom", FAILURE_MEMORY, "the GPU's memory ran out (PaddlePaddle)", smaller,
     "Out of memory error on GPU ", RANK_MEMORY},
    {"onnxruntime-oom", FAILURE_MEMORY, "the device's memory ran out (ONNX Runtime)", smaller,
     "Failed to allocate memory for requested buffer of size ", RANK_MEMORY - 2},
    {"tensorrt-oom", FAILURE_MEMORY, "the GPU's memory ran out (TensorRT)", smaller,
     "Error Code & OutOfMemory\nCuda Runtime (out of memory)\nCuda Error in &: 2 (out of memory)",
     RANK_MEMORY - 2},
    {"vllm-oom", FAILURE_MEMORY, "the model leaves no memory for the cache (vLLM)",
     "a smaller model or a shorter max_model_len; a higher gpu_memory_utilization, if nothing else "
     "uses the GPU",
     "No available memory for the cache blocks\nnumber of tokens that can be stored in KV cache\n"
     "larger than the available KV cache memory\nis less than desired GPU memory utilization\n"
     "Not enough memory. Please try to increase --mem-fraction-static",
     RANK_LIBRARY},
    {"cublas-alloc", FAILURE_MEMORY, "cuBLAS could not allocate its workspace", smaller,
     "CUBLAS_STATUS_ALLOC_FAILED", RANK_LIBRARY},
    {"cudnn-alloc", FAILURE_MEMORY, "cuDNN could not allocate", smaller,
     "CUDNN_STATUS_ALLOC_FAILED", RANK_LIBRARY},
    {"cufft-alloc", FAILURE_MEMORY, "cuFFT could not allocate its workspace", smaller,
     "CUFFT_ALLOC_FAILED", RANK_LIBRARY},
    {"nccl-oom", FAILURE_MEMORY, "NCCL could not allocate memory on the GPU", smaller,
     "NCCL WARN&out of memory\nLast NCCL warning&out of memory\nCuda failure&'out of memory'",
     RANK_LIBRARY},
    {"xla-oom", FAILURE_MEMORY, "the device's memory ran out (JAX, XLA, TensorFlow)", smaller,
     "RESOURCE_EXHAUSTED: Out of memory\nRESOURCE_EXHAUSTED: Failed to allocate request for\n"
     "XLA:TPU compile permanent error. Ran out of memory\nResource exhausted: Out of memory\n"
     "RESOURCE_EXHAUSTED: &That was not possible\nRESOURCE_EXHAUSTED: Ran out of memory\n"
     "Ran out of memory in memory space hbm\nunlikely to have enough memory. Requires ",
     RANK_MEMORY},
    {"tensorflow-oom", FAILURE_MEMORY, "the device's memory ran out (TensorFlow)", smaller,
     "OOM when allocating tensor with shape\nResourceExhaustedError&failed to allocate memory\n"
     "ResourceExhaustedError: Out of memory while trying\nDst tensor is not initialized",
     RANK_MEMORY},
    {"no-batch-fits", FAILURE_MEMORY, "the program's own search found no batch that fits", smaller,
     "No executable batch size found, reached zero", RANK_LIBRARY - 1},
    {"cublas-init", FAILURE_MEMORY, "cuBLAS could not start, usually for lack of GPU memory",
     "a smaller batch; if that does not help, look for indices or labels out of range",
     "CUBLAS_STATUS_NOT_INITIALIZED\nCUBLAS_STATUS_INTERNAL_ERROR", RANK_AMBIGUOUS},
    {"cudnn-internal", FAILURE_MEMORY, "cuDNN failed internally, usually for lack of GPU memory",
     "a smaller batch; if that does not help, driver, CUDA and cuDNN may not match",
     "CUDNN_STATUS_INTERNAL_ERROR\nCUDNN_STATUS_NOT_INITIALIZED\n"
     "Failed to get convolution algorithm. This is probably because cuDNN failed to initialize",
     RANK_AMBIGUOUS},

    // The machine's memory.
    {"cgroup-oom-kill", FAILURE_MEMORY, "the kernel killed a process at its group's memory limit",
     "a smaller batch, fewer loader workers, or a higher limit", NULL, RANK_COUNTED + 5},
    {"kernel-oom-log", FAILURE_MEMORY, "the kernel killed a process for memory (see its log)",
     "request more memory, a smaller batch, or fewer loader workers",
     "slurmstepd&oom-kill event\nslurmstepd&oom_kill event\noom-kill:constraint=\n"
     "Out of memory: Killed process\nMemory cgroup out of memory: Killed process\n"
     "slurmstepd: error: Exceeded &memory limit\nPBS: job killed: mem \n"
     "job killed after reaching LSF memory usage limit\nOOMKilled\n"
     "due to the node running low on memory\nsrun: error: &: Out Of Memory\n"
     "invoked oom-killer: \nkilled due to memory pressure (OOM)\n"
     "The node was low on resource: memory\nContainer killed by YARN for exceeding &memory limits\n"
     "running beyond physical memory limits\nYour notebook tried to allocate more memory than is\n"
     "Your session crashed after using all available RAM",
     RANK_COUNTED + 3},
    {"system-oom-kill", FAILURE_MEMORY, "killed while the kernel was killing processes for memory",
     "a smaller batch, fewer loader workers, or fewer other programs on this machine", NULL,
     RANK_COUNTED},
    {"cpu-allocator", FAILURE_MEMORY,
     "the machine's memory, or its limit, ran out (PyTorch's CPU allocator)", smaller,
     "DefaultCPUAllocator: can't allocate memory\nDefaultCPUAllocator: not enough memory\n"
     "posix_memalign&Cannot allocate memory",
     RANK_MEMORY},
    {"numpy-memory", FAILURE_MEMORY, "the machine's memory, or its limit, ran out (NumPy)",
     "smaller arrays, fewer loader workers",
     "_ArrayMemoryError: Unable to allocate\n^MemoryError: Unable to allocate", RANK_MEMORY + 1},
    {"python-memory", FAILURE_MEMORY, "the machine's memory, or its limit, ran out (Python)", fewer,
     "^MemoryError\nCould not allocate bytes object!", RANK_MEMORY - 2},
    {"bad-alloc", FAILURE_MEMORY, "the machine's memory, or its limit, ran out (C++)", fewer,
     "std::bad_alloc", RANK_MEMORY - 2},
    {"opencv-memory", FAILURE_MEMORY, "the machine's memory, or its limit, ran out (OpenCV)",
     "smaller images, fewer loader workers", "(-4:Insufficient memory) Failed to allocate",
     RANK_MEMORY},
    {"rust-memory", FAILURE_MEMORY, "the machine's memory, or its limit, ran out (a Rust library)",
     fewer, "^memory allocation of & bytes failed", RANK_MEMORY - 1},
    {"loader-memory", FAILURE_MEMORY,
     "the machine's memory, or its limit, ran out while libraries were loading",
     "a higher limit: the program did not even start",
     "failed to map segment from shared object\ncannot allocate memory for thread-local data",
     RANK_LIBRARY},
    {"errno-memory", FAILURE_MEMORY, "the system could not allocate memory", fewer,
     "Cannot allocate memory\n[WinError 1455]\nos error 1455", RANK_LIBRARY},
    {"worker-oom", FAILURE_MEMORY, "a loader worker was killed, usually by the kernel for memory",
     "fewer loader workers, a smaller prefetch factor, a smaller batch",
     "DataLoader worker (pid & is killed by signal: Killed", RANK_CRASH + 2, true},
    {"limit-crash", FAILURE_MEMORY, "crashed under the memory limit: an unchecked allocation",
     "a smaller batch or a higher limit", NULL, RANK_OWN + 1},
    {"limit-spin", FAILURE_MEMORY,
     "kept asking for memory beyond the limit: a library that never gives up",
     "a smaller batch or a higher limit", NULL, RANK_COUNTED},
    {"limit-over", FAILURE_MEMORY, "exceeded its memory limit and was stopped",
     "a smaller batch, fewer loader workers, or a higher limit", NULL, RANK_COUNTED + 6},

    // Shared memory of data workers.
    {"worker-shm", FAILURE_MEMORY, "a loader worker found /dev/shm full", larger_shm,
     "insufficient shared memory (shm)\nworkers are out of shared memory", RANK_MEMORY - 2},
    {"shm-full", FAILURE_MEMORY, "/dev/shm is full", larger_shm,
     "shared memory&No space left on device\nunable to write to file </torch_\n"
     "file </torch_&No space left on device\n/dev/shm&No space left on device\nError while "
     "creating shared memory segment /dev/shm/nccl",
     RANK_MEMORY - 2},
    {"bus-error", FAILURE_MEMORY, "bus error: /dev/shm is full, or a mapped file was truncated",
     "docker run --shm-size=8g (or --ipc=host), fewer loader workers",
     "^Bus error\n Bus error  \nBus error (core dumped)\nis killed by signal: Bus error\n"
     " (SIGBUS) received by PID\n(exitcode: -7)\nexits with return code = -7$\n"
     " terminated with signal SIGBUS",
     RANK_CRASH},

    // Processes and threads.
    {"java-threads", FAILURE_MEMORY, "no more threads could be started (Java)",
     "ulimit -u, the container's pids limit, fewer loader workers",
     "unable to create new native thread\nunable to create native thread", RANK_THREADS},
    {"python-threads", FAILURE_MEMORY, "no more threads could be started (Python)",
     "fewer loader workers or threads, a smaller batch; ulimit -u; the container's pids limit",
     "can't start new thread", RANK_THREADS},
    {"fork", FAILURE_MEMORY, "no more processes could be started",
     "fewer loader workers; ulimit -u; the container's pids limit",
     "fork&Resource temporarily unavailable\n^BlockingIOError: [Errno 11]\n"
     "pthread_create failed&Resource temporarily unavailable\npthread_create failed (EAGAIN)\n"
     "Thread creation failed: Resource temporarily unavailable",
     RANK_THREADS - 1},

    // Limits that a smaller batch avoids.
    {"cudnn-not-supported", FAILURE_LIMIT, "cuDNN has no kernel for these sizes; not out of memory",
     "a smaller batch or image, contiguous inputs, another layout", "CUDNN_STATUS_NOT_SUPPORTED",
     RANK_LIMIT},
    {"cudnn-engine", FAILURE_LIMIT, "cuDNN found no way to compute this at these sizes",
     "a smaller batch; if batch 1 fails too, driver, CUDA and cuDNN do not match",
     "was unable to find an engine to execute this computation", RANK_LIMIT},
    {"onednn", FAILURE_LIMIT,
     "oneDNN does not support these sizes on this CPU, or found no memory for them",
     "a smaller batch or image",
     "could not create a primitive\ncould not execute a primitive\ncould not create a memory "
     "object",
     RANK_LIMIT},
    {"cufft-limit", FAILURE_LIMIT, "cuFFT does not support these sizes; not out of memory",
     "a smaller batch or another size",
     "CUFFT_INVALID_SIZE\nCUFFT_INTERNAL_ERROR\n"
     "CUFFT_NOT_SUPPORTED\nCUFFT_INVALID_PLAN",
     RANK_LIMIT},
    {"grid-limit", FAILURE_LIMIT,
     "a kernel launch larger than CUDA allows (65535 blocks in y and z); not out of memory",
     "a smaller batch",
     "CUDA error: invalid configuration argument\n"
     "cudaErrorInvalidConfiguration\ntoo many resources requested for launch\n"
     "CUDA error: invalid argument\ninvalid configuration argument&cuda",
     RANK_LIMIT},
    {"index-32-bit", FAILURE_LIMIT,
     "a tensor of more than 2^31 elements where PyTorch uses 32-bit indices", "a smaller batch",
     "canUse32BitIndexMath\nmust fit into 32-bit index math\nmore than INT_MAX elements",
     RANK_LIMIT},
    // Not FAILURE_LIMIT: the batch is not in its shared memory.
    {"triton-resources", FAILURE_CRASH,
     "a Triton kernel needs more shared memory or registers than a multiprocessor of this GPU has",
     "use smaller blocks or fewer stages (BLOCK_SIZE, num_stages), a smaller head dimension, "
     "another version of the library, or switch its kernels off; the batch does not matter",
     "out of resource: shared memory\nout of resource: tensor memory\nout of resource: registers\n"
     "OutOfResources: out of resource",
     RANK_LIMIT},

    // The GPU.
    {"illegal-access", FAILURE_DEVICE, "illegal memory access on the GPU: a bug in a kernel",
     "CUDA_LAUNCH_BLOCKING=1 shows where; not the batch or memory",
     "an illegal memory access was encountered\nan illegal instruction was encountered\n"
     "CUDA error: misaligned address\nMemory access fault by GPU node\n"
     // Those that NVIDIA's list of Xid errors puts down to the application.
     "NVRM: Xid &): 13,\nNVRM: Xid &): 31,\nNVRM: Xid &): 43,",
     RANK_FAULT + 1},
    {"device-assert", FAILURE_DEVICE,
     "an assertion failed on the GPU: labels or indices out of range",
     "compare the labels with the number of classes; CUDA_LAUNCH_BLOCKING=1 shows where",
     "device-side assert triggered\nblock: [&thread: [&Assertion `", RANK_LIBRARY + 2, false, true},
    {"launch-failure", FAILURE_DEVICE, "a kernel failed on the GPU",
     "CUDA_LAUNCH_BLOCKING=1 shows where; dmesg | grep Xid",
     "unspecified launch failure\nthe launch timed out and was terminated\n"
     "CUDNN_STATUS_MAPPING_ERROR\n"
     "HSA_STATUS_ERROR_EXCEPTION\nCUDNN_STATUS_EXECUTION_FAILED\nCUBLAS_STATUS_EXECUTION_FAILED",
     RANK_FAULT},
    {"card-lost", FAILURE_DEVICE, "the GPU is broken or fell off the bus",
     "dmesg | grep Xid; reset or replace the GPU",
     "uncorrectable ECC error encountered\nCUDA_ERROR_ECC_UNCORRECTABLE\nfallen off the bus\n"
     "GPU is lost\nUnable to determine the device handle for \nCUDA error: unknown error\nNVRM: "
     "Xid",
     RANK_FAULT},
    {"card-busy", FAILURE_DEVICE,
     "the GPU does not accept this process (exclusive mode, or hanging)",
     "nvidia-smi shows the compute mode and who holds the GPU",
     "CUDA-capable device(s) is/are busy or unavailable\nCUDA-capable devices are busy or "
     "unavailable",
     RANK_FAULT},

    // Setup.
    {"no-kernel-image", FAILURE_CRASH, "this PyTorch (or extension) was not built for this GPU",
     "install a build for the GPU's compute capability",
     "no kernel image is available\nis not compatible with the current PyTorch installation\n"
     "PTX was compiled with an unsupported toolchain\ninvalid device function\n"
     "FlashAttention only supports Ampere GPUs or newer",
     RANK_AMBIGUOUS + 1},
    {"no-bf16", FAILURE_CRASH, "this GPU does not support bfloat16",
     "use fp16 or fp32 instead of bf16",
     "Your setup doesn't support bf16\nBfloat16 is only supported on GPUs with compute capability",
     RANK_AMBIGUOUS + 1},
    {"library-mismatch", FAILURE_CRASH, "mixed versions of cuDNN or other CUDA libraries",
     "use only the libraries of this PyTorch (TensorFlow): empty LD_LIBRARY_PATH, one cuDNN",
     "Could not load library libcu\nUnable to load any of {libcudnn\nLoaded runtime CuDNN library: "
     "\ncuDNN version incompatibility\nCUDNN_STATUS_VERSION_MISMATCH",
     RANK_AMBIGUOUS + 1},
    {"old-driver", FAILURE_CRASH,
     "the NVIDIA driver is missing, too old for this PyTorch, or not ready",
     "install a newer driver, or a PyTorch for an older CUDA; if the system is not yet "
     "initialized, start nvidia-fabricmanager in the driver's version",
     "NVIDIA driver on your system is too old\nCUDA driver version is insufficient\n"
     "Found no NVIDIA driver on your system\n"
     "forward compatibility was attempted on non supported HW\n"
     "system not yet initialized\nCUDA_ERROR_SYSTEM_NOT_READY\n"
     "Driver/library version mismatch\ndriver/library version mismatch",
     RANK_AMBIGUOUS + 2},
    {"no-cuda", FAILURE_CRASH, "this PyTorch sees no GPU",
     "install PyTorch with CUDA; check CUDA_VISIBLE_DEVICES and nvidia-smi",
     "Torch not compiled with CUDA enabled\nNo CUDA GPUs are available\n"
     "no CUDA-capable device is detected\nUnexpected error from cudaGetDeviceCount()\n"
     "Failed to initialize NVML: Unknown Error\nCUDA error: invalid device ordinal\n"
     "torch.cuda.is_available() is False",
     RANK_AMBIGUOUS + 1},
    {"import", FAILURE_CRASH, "a Python module is missing or incompatible",
     "install what is missing; run the command alone in the same environment",
     "^ModuleNotFoundError\n^ImportError\nundefined symbol: \n"
     "^RuntimeError: Failed to import &because of the following error\n"
     "numpy.dtype size changed, may indicate binary incompatibility\n"
     "AttributeError: module 'numpy' has no attribute '\nwas removed in the NumPy 2.0 release",
     RANK_SETUP},
    {"bitsandbytes", FAILURE_CRASH, "bitsandbytes found no matching CUDA library",
     "python -m bitsandbytes shows what it looked for; try a newer bitsandbytes, the CUDA of this "
     "PyTorch, LD_LIBRARY_PATH",
     "CUDA Setup failed despite GPU being available\nCUDA SETUP: Setup Failed\n"
     "Could not load bitsandbytes native library\nbitsandbytes was compiled without GPU support",
     RANK_SETUP + 3, false, true},
    {"cuda-extension", FAILURE_CRASH, "a CUDA extension could not be built on this machine",
     "install the CUDA toolkit version that this PyTorch was built with (CUDA_HOME, nvcc "
     "--version), ninja and a compiler; or use a prebuilt wheel",
     "unable to compile cuda/cpp extensions\nError building extension '\n^ninja: build stopped: \n"
     "CUDA_HOME environment variable is not set\n"
     "The detected CUDA version (&mismatches the version that was used to compile",
     RANK_SETUP + 3, false, true},
    {"network", FAILURE_CRASH, "a download failed: the network, a proxy or the server", offline,
     "Error: &Max retries exceeded with url\n^OSError: We couldn't connect to '\n"
     "Temporary failure in name resolution\nError: &CERTIFICATE_VERIFY_FAILED\n"
     "^huggingface_hub.&Error: \n^urllib.error.",
     RANK_SETUP},
    {"hub-access", FAILURE_CRASH, "the hub has no such model or dataset, or denies you access",
     "check the spelling of the name or path; run huggingface-cli login, and accept the model's "
     "terms",
     "is not a local folder and is not a\nRepository Not Found for url\nRepositoryNotFoundError\n"
     "You are trying to access a gated repo\ndoes not appear to have a file named",
     RANK_SETUP},
    {"network-warned", FAILURE_CRASH, "the hub could not be reached, and the log ends there",
     offline, "thrown while requesting HEAD\nthrown while requesting GET", RANK_STATUS + 2},
    {"missing-file", FAILURE_CRASH, "a file is missing", "check the command's folder and paths",
     "^FileNotFoundError\ncan't open file '&No such file or directory", RANK_SETUP},
    {"permission", FAILURE_CRASH, "permission denied for a file", "check the file's owner and mode",
     "^PermissionError\n[Errno 30] Read-only file system", RANK_SETUP},
    {"no-command", FAILURE_CRASH, "a command was not found", "check spelling and PATH",
     ": command not found\n: not found$\nNo such file or directory&exec", RANK_KILLED + 5},
    {"usage", FAILURE_CRASH, "the program rejected its arguments",
     "see its --help; batchfit fit --help lists batchfit's placeholders",
     "error: unrecognized arguments\nerror: the following arguments are required\nerror: argument "
     "&: invalid\nerror: argument &: expected\nerror: ambiguous option\nError: No such option\n"
     "Error: Missing option\nnot used by the HfArgumentParser\nCould not override '\nFATAL Flags "
     "parsing error\nCould not consume arg: \nUnrecognized options: --\nnot a valid YOLO argument",
     RANK_SETUP},
    {"no-launcher", FAILURE_CRASH, "a multi-rank training was started without a launcher",
     "use torchrun, accelerate launch, or srun with MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE",
     "environment variable RANK expected, but not set\n"
     "environment variable MASTER_ADDR expected, but not set\n"
     "Default process group has not been initialized",
     RANK_SETUP},
    {"not-a-tty", FAILURE_CRASH, "the program needs a terminal",
     "switch off its prompt or live display", "Inappropriate ioctl for device\nnot a tty\n(no-tty)",
     RANK_SETUP},
    {"no-input", FAILURE_CRASH, "the program asked a question and no one could answer",
     "use an option that answers it (--yes), or answer it in the config",
     "^EOFError: EOF when reading a line", RANK_SETUP},
    {"wandb-login", FAILURE_CRASH, "Weights & Biases has no API key and cannot ask for one",
     "run wandb login, or set WANDB_API_KEY or WANDB_MODE=offline (disabled)",
     "api_key not configured", RANK_SETUP + 1},
    // The texts of torch.save, which do not say why. What the system says is taken before them.
    {"save-failed", FAILURE_CRASH,
     "a file could not be written completely, usually because the disk or quota is full",
     "check the output folder with df -h and df -i, its quota and its mount; keep fewer "
     "checkpoints (save_total_limit)",
     "PytorchStreamWriter failed writing\n] . unexpected pos \niostream error\n"
     "RuntimeError: write(): fd &failed with\nbasic_ios::clear",
     RANK_SETUP},
    {"disk-full", FAILURE_CRASH, "a disk is full",
     "free space in the output and temporary folders (for multiprocessing's arrays: /dev/shm)",
     "No space left on device\nDisk quota exceeded\nThere is not enough space on the disk",
     RANK_SETUP + 1},
    {"open-files", FAILURE_CRASH, "too many open files",
     "ulimit -n 65536, or torch.multiprocessing.set_sharing_strategy('file_system')",
     "Too many open files\nreceived 0 items of ancdata\n"
     "unable to open shared memory object </torch_&in read-write mode$",
     RANK_SETUP + 2},
    {"batch-too-small", FAILURE_CRASH, "batch normalization cannot train on a batch of one",
     "a larger batch, or drop the smaller last one",
     "Expected more than 1 value per channel when training", RANK_SETUP},
    {"loss-nan", FAILURE_CRASH, "the loss or a gradient is NaN or infinite",
     "a lower learning rate, gradient clipping, bf16 or fp32 instead of fp16",
     "Loss became infinite or NaN\nreturned nan values in its \nfound NaN in local \n"
     "NaN loss during training\nNaN loss detected\nNaN loss encountered\n"
     "Error: NaN loss\nError: nan loss\nInvalid loss, terminating training\n"
     "The loss returned in `training_step` is \nloss scale already at minimum\n"
     "to satisfy the constraint Real(), but found invalid values:\n"
     "probability tensor contains either `inf`, `nan` or element < 0\n"
     "for gradients from `parameters` is non-finite\ninvalid value (nan) encountered in\n"
     "Minimum loss scale reached\nTensor had NaN values\nTensor had Inf and NaN values",
     RANK_OWN + 1},

    // Others are the cause.
    {"nccl-timeout", FAILURE_COMMUNICATION, "a collective timed out: another rank did not join",
     other_rank,
     "Watchdog caught collective operation timeout\n"
     "Some NCCL operations have failed or timed out\nfailed to pass monitoredBarrier in\n"
     "watchdog got stuck for",
     RANK_SYMPTOM + 1},
    {"duplicate-gpu", FAILURE_CRASH, "two ranks use the same GPU",
     "start no more ranks than GPUs (--nproc_per_node, CUDA_VISIBLE_DEVICES), and call "
     "torch.cuda.set_device(local_rank) before the first collective",
     "Duplicate GPU detected", RANK_SETUP, false, true},
    {"nccl", FAILURE_COMMUNICATION, "NCCL failed", other_rank,
     "NCCL error\nunhandled system error\nunhandled cuda error\nncclSystemError\n"
     "ncclInternalError\nncclRemoteError\ntorch.distributed.DistBackendError",
     RANK_SYMPTOM},
    {"gloo", FAILURE_COMMUNICATION, "another rank disappeared: a connection was lost", other_rank,
     "gloo/transport\nGloo connectFullMesh failed\n^RuntimeError: Connection reset by peer\n"
     "^RuntimeError: Broken pipe\n^RuntimeError: Connection refused\n^ConnectionResetError\n"
     "^BrokenPipeError\n^ConnectionRefusedError",
     RANK_SYMPTOM},
    {"port-in-use", FAILURE_COMMUNICATION, "the port is in use, perhaps by a leftover process",
     "use another --master_port (MASTER_PORT), or --rdzv-endpoint localhost:0; ss -tlnp shows "
     "which process has it",
     "EADDRINUSE\nAddress already in use\naddress already in use\n"
     "The server socket has failed to listen on any local network",
     RANK_SYMPTOM + 1},
    {"rendezvous", FAILURE_COMMUNICATION, "the ranks did not find each other",
     "check MASTER_ADDR, MASTER_PORT and firewalls; NCCL_SOCKET_IFNAME names the adapter",
     "RendezvousTimeoutError\nRendezvousConnectionError\nRendezvousClosedError\n"
     "The client socket has timed out\nDistStoreError\n^RuntimeError: Socket Timeout\n"
     "Timeout waiting for key: default_pg\nThe connection to the C10d store has failed",
     RANK_SYMPTOM},
    {"child-failed", FAILURE_COMMUNICATION,
     "the launcher only reports that a rank ended; the rank's own output shows why",
     "look at the output of the first rank named: torchrun --log-dir DIR --tee 3 keeps it, @record "
     "around main() puts its traceback into the summary",
     "ChildFailedError\n^subprocess.CalledProcessError\n^torch.multiprocessing.spawn.Process\n"
     "^terminate called without an active exception\nRoot Cause (first observed failure):\n"
     "torchelastic.worker.status.FAILED\nCHILD PROCESS FAILED WITH NO ERROR_FILE\n"
     "multiprocessing&failed (exitcode: \n] exits with return code = \n"
     "Horovod has been shut down\n^Primary job  terminated normally, but \n"
     "mpirun&detected that one or more processes exited with non-zero status\n"
     "BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n"
     "srun: error: &: Exited with exit code \nActorDiedError\nray.exceptions.RayActorError\n"
     "WorkerCrashedError\nwhile executing a task by an unexpected system error",
     RANK_LAUNCHER},

    // Signals.
    {"crash", FAILURE_KILLED, "crashed in native code", "PYTHONFAULTHANDLER=1 shows where",
     "is killed by signal: Segmentation fault\n^Fatal Python error: Segmentation fault\n"
     " (SIGSEGV) received by PID\n^Segmentation fault\nSegmentation fault (core dumped)\n"
     "(exitcode: -11)\nexits with return code = -11$\n terminated with signal SIGSEGV\n"
     "exited on signal 11 \nsrun: error: &: Segmentation fault\n"
     "Illegal instruction (core dumped)\nfinished with exit code 139\n"
     "finished with exit code -1073741819\nSignal: Segmentation fault (11)\ndied with "
     "<Signals.SIGSEGV: \n"
     "Unexpected segmentation fault encountered in worker",
     RANK_KILLED},
    {"abort", FAILURE_KILLED, "native code aborted", "the last lines may say why",
     "is killed by signal: Aborted\n^Fatal Python error: \n (SIGABRT) received by PID\n^Aborted$\n"
     " Aborted  \nAborted (core dumped)\n(exitcode: -6)\nexits with return code = -6$\n"
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
     "exit code 137\nexit code: 137\nExitCode: 137\nexited on signal 9 \n"
     "srun: error: &: Killed\nKILLED BY SIGNAL: 9\n"
     "Canceled future for execute_request message before replies were done",
     RANK_KILLED - 2},
    {"worker-exited", FAILURE_KILLED, "a loader worker died without a message",
     "--workers 0 shows its error; dmesg | grep -i 'killed process' shows whether memory ran out",
     "DataLoader worker (pid& exited unexpectedly\nbackground workers are no longer alive",
     RANK_SYMPTOM - 1},
    {"interrupted", FAILURE_KILLED, "interrupted", "",
     "^KeyboardInterrupt\n^Terminated$\n"
     "(exitcode: -15)\nexits with return code = -15$\n"
     "SignalException: Process & got signal:\nslurmstepd: & CANCELLED AT \n"
     "PBS: job killed: walltime \njob killed after reaching LSF run time limit",
     RANK_LAUNCHER - 1},
    {"signal", FAILURE_KILLED, "ended by a signal", "", NULL, RANK_STATUS + 1},

    // The program's own errors for which the usual help is known.
    {"state-dict", FAILURE_CRASH, "the checkpoint is of another model",
     "the model's settings with which it was saved (classes, widths, vocabulary); strict=False, or "
     "only the weights that fit, where that is meant",
     "Error(s) in loading state_dict for", RANK_OWN},
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
     "Cannot re-initialize CUDA in forked subprocess", RANK_OWN},
    {"compile", FAILURE_CRASH, "torch.compile could not compile the model",
     "TORCH_COMPILE_DISABLE=1 runs it without; a C compiler (gcc); the lines above name the code",
     "torch._dynamo.exc.BackendCompilerFailed\ntorch._inductor.exc.InductorError\n"
     "Failed to find C compiler",
     RANK_OWN},
    {"shapes", FAILURE_CRASH, "the sizes of a layer and its input do not match",
     "compare features, channels, classes and sequence length in the config with the data",
     "shapes cannot be multiplied\nsize mismatch, m1: \nThe size of tensor a (&must match\n"
     "Sizes of tensors must match except in dimension\nto match target batch_size (",
     RANK_OWN},
    {"wrong-device", FAILURE_CRASH, "a tensor is on a different device from the model",
     "call .to(device) on the inputs and on tensors created in the forward pass",
     "Expected all tensors to be on the same device\n"
     "Input type (&and weight type (&should be the same",
     RANK_OWN},
    {"unused-parameters", FAILURE_CRASH, "DDP waits for gradients of parameters that were not used",
     "set find_unused_parameters=True, or remove those parameters",
     "Expected to have finished reduction in the prior iteration", RANK_OWN},

    // The rest.
    {"own-error", FAILURE_CRASH, "the program's own error", "see the last lines", NULL, RANK_OWN},
    {"exit-status", FAILURE_CRASH, "failed without a known message", "the last lines may say why",
     NULL, RANK_STATUS},
    {"clean", FAILURE_CLEAN, "ended normally", "", NULL, RANK_CLEAN},
    {0},
};
const int failure_signature_count =
    (int)(sizeof failure_signatures / sizeof *failure_signatures) - 1;
