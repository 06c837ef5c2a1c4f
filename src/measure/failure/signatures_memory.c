// SPDX-License-Identifier: Apache-2.0
// How programs say that memory ran out, or that a size is too large: the first part of the table.
#include "measure/failure/failure_int.h"

static const char smaller[] = "a smaller batch; batchfit explain shows what else saves memory";
static const char fewer[] = "a smaller batch, fewer loader workers",
                  larger_shm[] = "docker run --shm-size=8g (or --ipc=host), fewer loader workers";

const struct failure_signature failure_signatures_memory[] = {
    // The GPU's memory.
    {"cuda-oom", FAILURE_MEMORY, "the GPU's memory ran out (PyTorch's CUDA allocator)", smaller,
     "CUDA out of memory. Tried to allocate\n^torch.OutOfMemoryError\n"
     "^torch.cuda.OutOfMemoryError\n^OutOfMemoryError: CUDA\nOutOfMemoryError: Allocation on "
     "device\nried to allocate &(GPU &total capacity; &already allocated",
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
    {"other-oom", FAILURE_MEMORY,
     "the device's memory ran out (a vendor's PyTorch, or another library)", smaller,
     " out of memory. Tried to allocate\nNCudaLib::TOutOfMemoryError\n"
     "Memory allocation error on worker \nCL_MEM_OBJECT_ALLOCATION_FAILURE\n"
     "Video memory allocation failed!",
     RANK_MEMORY - 2},
    {"mps-oom", FAILURE_MEMORY, "the memory available to Metal ran out (PyTorch's MPS allocator)",
     smaller,
     "MPS backend out of memory (\nkIOGPUCommandBufferCallbackErrorOutOfMemory\n"
     "[malloc_or_wait] Unable to allocate \n[metal::malloc] Unable to allocate \n"
     "[metal::malloc] Attempting to allocate ",
     RANK_MEMORY},
    {"cuda-driver-oom", FAILURE_MEMORY,
     "the driver could not allocate memory (context, pinned memory, or another process holds the "
     "GPU)",
     "nvidia-smi shows who else holds the GPU; a smaller batch, fewer pinned buffers",
     "CUDA error: out of memory\nCUDA driver error: out of memory\ncuda runtime error (2) : out of "
     "memory\n"
     "CUDA_ERROR_OUT_OF_MEMORY\ncudaErrorMemoryAllocation\nout_of_memory: CUDA error\n"
     "CUDA error &: out of memory\nTriton Error [CUDA]: out of memory\nfailed to allocate & from "
     "device: \n"
     "cudaMalloc&out of memory\ncudaSuccess&out of memory\nCUDA failure 2: out of memory",
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
     "Not enough memory. Please try to increase --mem-fraction-static\n"
     "Not enought memory. Please try to increase --mem-fraction-static\n"
     "the rest of the memory reserved for KV Cache is -\nAvailable KV cache memory: -\n"
     "# GPU blocks: 0,\n# cuda blocks: 0,",
     RANK_LIBRARY},
    {"cublas-alloc", FAILURE_MEMORY, "cuBLAS could not allocate its workspace", smaller,
     "CUBLAS_STATUS_ALLOC_FAILED", RANK_LIBRARY},
    // PyTorch asks NVML for the figures of its message; without NVML there is only this one.
    {"nvml-assert", FAILURE_MEMORY,
     "the GPU's memory ran out, and NVML, which PyTorch asks for the figures, does not answer",
     smaller, "NVML_SUCCESS == r INTERNAL ASSERT FAILED&CachingAllocator", RANK_LIBRARY},
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
     "ResourceExhaustedError: Out of memory while trying\nDst tensor is not initialized\n"
     "_bfc) ran out of memory trying to allocate &Current allocation summary follows\n"
     "_bfc) ran out of memory trying to allocate &requested by op",
     RANK_MEMORY},
    {"no-batch-fits", FAILURE_MEMORY, "the program's own search found no batch that fits", smaller,
     "No executable batch size found, reached zero", RANK_LIBRARY - 1},
    {"cublas-init", FAILURE_MEMORY, "cuBLAS could not start, usually for lack of GPU memory",
     "a smaller batch; if that does not help, look for indices or labels out of range",
     "CUBLAS_STATUS_NOT_INITIALIZED\nCUBLAS_STATUS_INTERNAL_ERROR", RANK_AMBIGUOUS},
    {"cudnn-internal", FAILURE_MEMORY, "cuDNN failed internally, usually for lack of GPU memory",
     "a smaller batch; if that does not help, driver, CUDA and cuDNN may not match",
     "CUDNN_STATUS_INTERNAL_ERROR\nCUDNN_STATUS_NOT_INITIALIZED\n"
     "Unable to find a valid cuDNN algorithm to run convolution\n"
     "Failed to get convolution algorithm. This is probably because cuDNN failed to initialize",
     RANK_AMBIGUOUS},

    // The machine's memory.
    {"cgroup-oom-kill", FAILURE_MEMORY, "the kernel killed a process at its group's memory limit",
     "a smaller batch, fewer loader workers, or a higher limit", NULL, RANK_COUNTED + 5},
    {"kernel-oom-log", FAILURE_MEMORY, "the kernel killed a process for memory (see its log)",
     "request more memory, a smaller batch, or fewer loader workers",
     "slurmstepd&oom-kill event\nslurmstepd&oom_kill event\noom-kill:constraint=\n"
     "Out of memory: Killed process\nMemory cgroup out of memory: Killed process\n"
     " OUT_OF_ME+ \nState: OUT_OF_MEMORY (\nJobState=OUT_OF_MEMORY\n"
     "slurmstepd: error: Exceeded &memory limit\nPBS: job killed: mem \n"
     "job killed after reaching LSF memory usage limit\nOOMKilled\n"
     "due to the node running low on memory\nsrun: error: &: Out Of Memory\n"
     "invoked oom-killer: \nkilled due to memory pressure (OOM)\n"
     "The node was low on resource: memory\n[MemoryPressure]\n"
     "systemd-oomd&Killed &due to memory \nsystemd-oomd killed &process(es) in this unit\n"
     "earlyoom&sending SIG\nContainer killed by YARN for exceeding &memory limits\n"
     "running beyond physical memory limits\nYour notebook tried to allocate more memory than is\n"
     "Your session crashed after using all available RAM",
     RANK_COUNTED + 3},
    {"system-oom-kill", FAILURE_MEMORY, "killed while the kernel was killing processes for memory",
     "a smaller batch, fewer loader workers, or fewer other programs on this machine", NULL,
     RANK_COUNTED},
    {"cpu-allocator", FAILURE_MEMORY,
     "the machine's memory, or its limit, ran out (PyTorch's CPU allocator)", fewer,
     "DefaultCPUAllocator: can't allocate memory\nDefaultCPUAllocator: not enough memory\n"
     "$ Torch: not enough memory: you tried to allocate\nposix_memalign&Cannot allocate memory",
     RANK_MEMORY},
    {"numpy-memory", FAILURE_MEMORY, "the machine's memory, or its limit, ran out (NumPy)",
     "smaller arrays, fewer loader workers",
     "_ArrayMemoryError: Unable to allocate\n^MemoryError: Unable to allocate\n"
     "numpy.core._exceptions.MemoryError: Unable to allocate",
     RANK_MEMORY + 1},
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
     "Cannot allocate memory\n[WinError 1455]\nos error 1455\nOut of Host Memory\n"
     "CL_OUT_OF_HOST_MEMORY",
     RANK_LIBRARY},
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
     "shared memory&No space left on device\nNCCL WARN&No space left on device\n"
     "there is not enough space for /dev/shm\nunable to write to file </torch_\n"
     "file </torch_&No space left on device\n/dev/shm&No space left on device\nUsage of EmptyDir "
     "volume \"&shm\" exceeds the limit\nError while "
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
    {0},
};
