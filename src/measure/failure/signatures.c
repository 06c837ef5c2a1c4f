// SPDX-License-Identifier: Apache-2.0
// How programs say what is wrong with the GPU and with what is set up around them: the second part
// of the table. Every row of all parts has a captured text in tests/failures/ whose first line says
// which program and version printed it.
#include "measure/failure/failure_int.h"

static const char offline[] = "check the connection and its proxy; or download it beforehand and "
                              "set HF_HUB_OFFLINE=1 (HF_ENDPOINT names a mirror)";

const struct failure_signature failure_signatures_setup[] = {
    // The GPU.
    {"illegal-access", FAILURE_DEVICE, "illegal memory access on the GPU: a bug in a kernel",
     "CUDA_LAUNCH_BLOCKING=1 shows where; not the batch or memory",
     "an illegal memory access was encountered\nan illegal instruction was encountered\n"
     "misaligned address\ninvalid program counter\nMemory access fault by GPU node\n"
     "CUDA_ERROR_ILLEGAL_ADDRESS\nCUDA_ERROR_MISALIGNED_ADDRESS\ncudaErrorIllegalAddress\n"
     // Those that NVIDIA's list of Xid errors puts down to the application.
     "NVRM: Xid &): 13,\nNVRM: Xid &): 31,\nNVRM: Xid &): 43,",
     RANK_FAULT + 1},
    {"device-assert", FAILURE_DEVICE,
     "an assertion failed on the GPU: labels or indices out of range",
     "compare the labels with the number of classes; CUDA_LAUNCH_BLOCKING=1 shows where",
     "device-side assert triggered\nblock: [&thread: [&Assertion `\nCUDA_ERROR_ASSERT\n"
     "cudaErrorAssert",
     RANK_LIBRARY + 2, false, true},
    {"launch-failure", FAILURE_DEVICE, "a kernel failed on the GPU",
     "CUDA_LAUNCH_BLOCKING=1 shows where; dmesg | grep Xid",
     "unspecified launch failure\nthe launch timed out and was terminated\n"
     "CUDA_ERROR_LAUNCH_FAILED\nCUDA_ERROR_LAUNCH_TIMEOUT\ncudaErrorLaunchFailure\n"
     "CUDNN_STATUS_MAPPING_ERROR\n"
     "HSA_STATUS_ERROR_EXCEPTION\nCUDNN_STATUS_EXECUTION_FAILED\nCUBLAS_STATUS_EXECUTION_FAILED",
     RANK_FAULT},
    {"card-lost", FAILURE_DEVICE, "the GPU is broken or fell off the bus",
     "dmesg | grep Xid; reset or replace the GPU",
     "uncorrectable ECC error encountered\nCUDA_ERROR_ECC_UNCORRECTABLE\nfallen off the bus\n"
     "GPU is lost\nRmInitAdapter failed!\nUnable to determine the device handle for \n"
     "CUDA error: unknown error\ncuda runtime error (30) : unknown error\n"
     "(30 vs. 0)  unknown error\nuncorrectable NVLink error detected\n"
     "CUDA_ERROR_NVLINK_UNCORRECTABLE\nNVRM: Xid\n"
     "Synapse detected a device critical error",
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
     "device kernel image is invalid\nCUDA_ERROR_NO_BINARY_FOR_GPU\n"
     "CUDA_ERROR_UNSUPPORTED_PTX_VERSION\ncudaErrorNoKernelImageForDevice\nhipErrorNoBinaryForGpu\n"
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
    {"cublas-invalid", FAILURE_CRASH,
     "cuBLAS refused a call, usually because another cuBLAS than PyTorch's was loaded",
     "unset LD_LIBRARY_PATH, and only one nvidia-cublas package (pip list); if that does not help, "
     "a PyTorch for this GPU's CUDA, then the sizes of the tensors",
     "CUBLAS_STATUS_INVALID_VALUE\nCUBLAS_STATUS_NOT_SUPPORTED\nCUBLAS_STATUS_ARCH_MISMATCH",
     RANK_AMBIGUOUS},
    {"old-driver", FAILURE_CRASH,
     "the NVIDIA driver is missing, too old for this PyTorch, or not ready",
     "install a newer driver, or a PyTorch for an older CUDA; if the system is not yet "
     "initialized, start nvidia-fabricmanager in the driver's version",
     "NVIDIA driver on your system is too old\nCUDA driver version is insufficient\n"
     "Found no NVIDIA driver on your system\n"
     "forward compatibility was attempted on non supported HW\n"
     "unsupported display driver / cuda driver combination\nCUDA_ERROR_SYSTEM_DRIVER_MISMATCH\n"
     "CUDA driver is a stub library\n"
     "system not yet initialized\nCUDA_ERROR_SYSTEM_NOT_READY\n"
     "couldn't communicate with the NVIDIA driver\nNVRM: No NVIDIA graphics adapter probed\n"
     "NVRM: The NVIDIA probe routine was not called\n"
     "Driver/library version mismatch\ndriver/library version mismatch",
     RANK_AMBIGUOUS + 2},
    {"no-cuda", FAILURE_CRASH, "this PyTorch sees no GPU",
     "install PyTorch with CUDA; check CUDA_VISIBLE_DEVICES and nvidia-smi",
     "Torch not compiled with CUDA enabled\nNo CUDA GPUs are available\nNo HIP GPUs are available\n"
     "no CUDA-capable device is detected\n"
     "RuntimeError: CUDA unknown error - this may be due to\n"
     "Unexpected error from cudaGetDeviceCount()\n"
     "invalid device ordinal\ntorch.cuda.is_available() is False",
     RANK_AMBIGUOUS + 1},
    {"no-nvml", FAILURE_CRASH, "the driver does not answer here: a container that lost its GPUs",
     "run nvidia-smi outside and inside; if only inside fails, start the container again (after "
     "systemctl daemon-reload they lose their GPUs: no cgroups driver of systemd, or "
     "--device=/dev/nvidia0 too)",
     "Failed to initialize NVML: Unknown Error", RANK_AMBIGUOUS + 1},
    {"nvml-warned", FAILURE_CRASH, "PyTorch cannot ask the driver, and the log ends there",
     "run nvidia-smi in the same container and session: what it says is the cause; then "
     "python -c 'import torch; torch.cuda.init()'",
     "UserWarning: Can't initialize NVML", RANK_WARNED},
    {"tensorflow-cpu", FAILURE_CRASH,
     "TensorFlow did not find its CUDA libraries: it computes on the CPU",
     "pip install 'tensorflow[and-cuda]', or the CUDA and cuDNN versions of its release on "
     "LD_LIBRARY_PATH; without a GPU this means nothing",
     "Could not load dynamic library 'libcu\nCould not load dynamic library 'cud\n"
     "Cannot dlopen some GPU libraries",
     RANK_WARNED},
    {"cuda-warned", FAILURE_CRASH, "PyTorch could not start CUDA: it computes on the CPU",
     "run nvidia-smi in the same container and session; then python -c 'import torch; "
     "torch.cuda.init()': what they say is the cause. Without a GPU this means nothing",
     "UserWarning: CUDA initialization: ", RANK_WARNED},
    {"import", FAILURE_CRASH, "a Python module is missing or incompatible",
     "install what is missing; run the command alone in the same environment",
     "^ModuleNotFoundError\n^ImportError\nundefined symbol: \n"
     "^RuntimeError: Failed to import &because of the following error\n"
     "numpy.dtype size changed, may indicate binary incompatibility\n"
     "AttributeError: module 'numpy\nAttributeError: module 'torch\n"
     "AttributeError: module 'tensorflow\nAttributeError: module 'keras\n"
     "AttributeError: module 'transformers\nAttributeError: module 'PIL.Image' has no attribute '\n"
     "were compiled with different CUDA\nwas removed in the NumPy 2.0 release",
     RANK_SETUP},
    {"bitsandbytes", FAILURE_CRASH, "bitsandbytes found no matching CUDA library",
     "python -m bitsandbytes shows what it looked for; try a newer bitsandbytes, the CUDA of this "
     "PyTorch, LD_LIBRARY_PATH",
     "CUDA Setup failed despite GPU being available\nCUDA SETUP: Setup Failed\n"
     "'NoneType' object has no attribute 'cquantize_\n'NoneType' object has no attribute "
     "'cdequantize_\n"
     "Could not load bitsandbytes native library\nbitsandbytes was compiled without GPU support",
     RANK_SETUP + 3, false, true},
    {"install", FAILURE_CRASH, "a package could not be installed",
     "a version that exists for this Python (pip index versions NAME), from the index that has it "
     "(PyTorch's for +cu builds); a prebuilt wheel, or the compiler that its build needs",
     "ERROR: No matching distribution found for \nERROR: Could not find a version that satisfies \n"
     "ERROR: Could not build wheels for \nerror: subprocess-exited-with-error\n"
     "error: externally-managed-environment\n^PackagesNotFoundError\n^UnsatisfiableError",
     RANK_SETUP},
    {"cpu-build", FAILURE_CRASH, "a package was installed without its CUDA part",
     "install it in the version for this PyTorch and CUDA (torchvision and torchaudio from "
     "PyTorch's index), or build it on a machine with CUDA",
     "Could not run 'torchvision::\nNot compiled with GPU support\nNot compiled with CUDA support\n"
     "is not compiled with CUDA support\nwas not compiled with CUDA\nCouldn't load custom C++ ops",
     RANK_OWN + 1},
    {"cuda-extension", FAILURE_CRASH, "a CUDA extension could not be built on this machine",
     "install the CUDA toolkit version that this PyTorch was built with (CUDA_HOME, nvcc "
     "--version), ninja and a compiler; or use a prebuilt wheel",
     "nvcc fatal   : \nobject has no attribute 'ds_opt_adam'\nunable to compile cuda/cpp "
     "extensions\nError building extension '\n^ninja: build stopped: \n"
     "CUDA_HOME environment variable is not set\n"
     "The detected CUDA version (&mismatches the version that was used to compile",
     RANK_SETUP + 3, false, true},
    {"network", FAILURE_CRASH, "a download failed (the network, a proxy or the server)", offline,
     "Error: &Max retries exceeded with url\n^OSError: We couldn't connect to '\n"
     "Connection error, and we cannot find the requested files in the \n"
     "^ConnectionError: Couldn't reach \n"
     "Temporary failure in name resolution\nError: &CERTIFICATE_VERIFY_FAILED\n"
     "^huggingface_hub.&Error: \n^urllib.error.\n^urllib3.exceptions.\n^requests.exceptions.\n"
     "^httpx.\n^aiohttp.client_exceptions.\n^http.client.\n"
     "^socket.timeout\n^socket.gaierror\n^ssl.SSL\n^TimeoutError: The read operation timed out\n"
     "^TimeoutError: The handshake operation timed out\n^TimeoutError: _ssl.c:\n"
     "Consistency check failed: file should be of size\nTimeoutError: HTTP&Read timed out",
     RANK_SETUP},
    {"hub-access", FAILURE_CRASH, "the hub has no such model or dataset, or denies you access",
     "check the spelling of the name or path; run huggingface-cli login, and accept the model's "
     "terms",
     "Can't load tokenizer for '\nCan't load config for '\n"
     "Can't load the model for '\nCan't load the configuration of '\n"
     "is not a local folder and is not a\nRepository Not Found for url\nRepositoryNotFoundError\n"
     "You are trying to access a gated repo\nGatedRepoError: \nCannot access gated repo for "
     "url\ndoes not appear to have a file named",
     RANK_SETUP},
    {"hub-offline", FAILURE_CRASH,
     "offline mode is on, and what it needs is not in the hub's cache",
     "unset HF_HUB_OFFLINE and TRANSFORMERS_OFFLINE; or download it where there is a network (hf "
     "download NAME), into the same HF_HOME",
     "OfflineModeIsEnabled: \noutgoing traffic has been disabled", RANK_SETUP + 1},
    {"network-warned", FAILURE_CRASH, "the hub could not be reached, and the log ends there",
     offline, "thrown while requesting HEAD\nthrown while requesting GET", RANK_WARNED},
    {"missing-file", FAILURE_CRASH, "a file is missing", "check the command's folder and paths",
     "^FileNotFoundError\ncan't open file '&No such file or directory", RANK_SETUP},
    {"permission", FAILURE_CRASH, "permission denied for a file", "check the file's owner and mode",
     "^PermissionError\n[Errno 13] Permission denied\n[Errno 30] Read-only file system",
     RANK_SETUP},
    {"no-command", FAILURE_CRASH, "a command was not found", "check spelling and PATH",
     ": command not found\n: not found$\nNo such file or directory&execv\n"
     "No such file or directory&exec: \nNo such file or directory&exec failed",
     RANK_KILLED + 5},
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
     "^RuntimeError: File & cannot be opened.$\n"
     "RuntimeError: write(): fd &failed with\nbasic_ios::clear",
     RANK_SETUP},
    {"disk-full", FAILURE_CRASH, "a disk is full",
     "free space in the output and temporary folders (for multiprocessing's arrays: /dev/shm)",
     "No space left on device\nDisk quota exceeded\nThere is not enough space on the disk\n"
     "The node was low on resource: ephemeral-storage\n[DiskPressure]\n"
     "ephemeral local storage usage exceeds",
     RANK_SETUP + 1},
    {"file-system", FAILURE_CRASH, "a disk or network file system failed",
     "check the mount, its server and dmesg; if it was printing, its terminal was closed (nohup, "
     "tmux)",
     "Stale file handle\nTransport endpoint is not connected\n[Errno 5] Input/output error",
     RANK_SETUP},
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
     "Minimum loss scale reached\nTensor had NaN values\nTensor had Inf and NaN values\n"
     "Error: NaN detected in \nNansException: A tensor with all NaNs was produced in",
     RANK_OWN + 1},
    {"loss-scale", FAILURE_CRASH, "the loss scale collapsed: gradients are NaN or infinite at any",
     "bf16 or fp32 instead of fp16, a lower learning rate, gradient clipping; "
     "torch.autograd.set_detect_anomaly(True) names the operation",
     "reducing loss scale to &e-\nreducing loss scale to 0.0$", RANK_OWN + 1, false, true},
    {0},
};
