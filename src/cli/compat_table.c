// SPDX-License-Identifier: Apache-2.0
// The rows are read from the top; tests/cli/seeds.tsv has the commands that they come from, and
// tests/unit/cli_compat.c fails on a row that names what does not exist.
#include "cli/cli.h"

#define PREDICTS "fit infer explain team check doctor"
#define TRAININGS_OWN                                                                        \
    "it belongs to the training; put it after the --: batchfit run --config FILE -- python " \
    "train.py ..."

const struct cli_compat_row cli_compat_table[] = {
    // --- One name for one thing
    {PREDICTS " record bench", "image-size=", "--img-size="},
    {PREDICTS, "memory-safety-margin=", "--safety-margin="},
    {PREDICTS, "safety-factor= memory-fraction=", "--safety-margin=", .value = CLI_COMPAT_REST},
    {"fit infer explain doctor", "gpu-model=", "--gpu="},
    {"fit infer explain doctor", "gpu-memory-limit=", "--gpu-memory="},
    {PREDICTS " run", "config-section=", "--section="},
    {PREDICTS, "use-amp", "--precision=amp-fp16"},
    {"fit explain team check doctor", "use-checkpoint", "--checkpointing"},

    // --- fit: auto_batch_size.py
    {"fit", "inference", NULL, "infer"},
    {"fit", "tta= tta-table= images= target-time=", "=", "infer"},
    {"fit infer", "min-f1= min-f1-score=", "--min-f1=", "infer"},
    {"fit infer", "tta-views-at-once= test-data=", .kind = CLI_COMPAT_REFUSED,
     .says = "batchfit infer --tta runs the views one after another, or stacked if the config has "
             "tta_mode: stacked; --images N sets the number of images"},
    {"fit", "multi-gpu", "--ranks=", .value = CLI_COMPAT_RANKS},
    {"fit infer", "mode= find-optimal aggressive-optimization", .kind = CLI_COMPAT_NEEDLESS,
     .says = "it always looks for the largest batch that fits"},
    {"fit infer", "enable-oom-recovery", .kind = CLI_COMPAT_NEEDLESS,
     .says = "a trial that runs out of memory counts as an answer; batchfit run --recover "
             "continues after one"},
    {"fit infer", "model-type=", .kind = CLI_COMPAT_IGNORED,
     .says = "the model comes from the config or --model NAME (batchfit list models)"},

    {"fit infer", "batch-size= batch=", .kind = CLI_COMPAT_REFUSED,
     .says = "it looks for the batch itself: --max-batch-size N bounds it, batchfit explain "
             "--batch-size N answers for one of a training; a command goes after --"},

    // --- infer: infer_main.py, recommend_tta.py
    {"infer", "eval-batch", .kind = CLI_COMPAT_REFUSED,
     .says = "batchfit infer answers for evaluation itself; batchfit fit --eval-batch is for the "
             "evaluation within a training"},
    {"infer", "effective-batch-size=", "--max-batch-size="},
    {"infer", "optimizer= free-batch checkpointing use-checkpoint", .kind = CLI_COMPAT_IGNORED,
     .says = "inference has no optimizer, no accumulation and no backward pass"},
    {"infer", "gpus=", .kind = CLI_COMPAT_REFUSED,
     .says = "batchfit infer is about one GPU (--gpu NAME); for a server that splits a language "
             "model over several GPUs it says what each holds"},
    {"infer", "multi-gpu", .kind = CLI_COMPAT_NEEDLESS,
     .says = "each GPU predicts with its own batch"},
    {"infer", "optimize-for-inference fold-results= use-calibration", .kind = CLI_COMPAT_NEEDLESS,
     .says = "the batch depends neither on the weights nor on the use of the outputs"},
    {"infer", "compile-model dynamo-backend= use-tensorrt engine-path=", .kind = CLI_COMPAT_REFUSED,
     .says = "the prediction is for eager PyTorch; batchfit bench --engine torch-compile trtexec "
             "measures the others"},

    // --- check: team_gpu_check.py
    {"check", "compatibility-matrix", "--matrix"},
    {"check", "recommend-settings", "--recommend"},
    {"check", "check-drivers", .kind = CLI_COMPAT_NEEDLESS, .says = "the driver is always checked"},
    {"check", "analyze-team-performance", NULL, "team"},
    {"check team", "recommend-tta-type", "--tta=auto", "infer"},

    // --- watch and serve: gpu_monitor.py
    {"watch", "dashboard export-prometheus", NULL, "serve"},
    {"watch", "port=", "=", "serve"},
    {"watch", "log-file=", "--log="},
    {"serve", "log= log-file=", "--log=", "watch"},
    {"serve", "duration=", "=", "watch"},
    {"watch serve", "update-interval=", "--interval="},
    {"watch serve", "multi-gpu", .kind = CLI_COMPAT_NEEDLESS, .says = "all GPUs are watched"},
    {"serve", "dashboard export-prometheus", .kind = CLI_COMPAT_NEEDLESS,
     .says = "the dashboard is at /, the Prometheus metrics at /metrics"},

    // --- doctor: bottleneck_analyzer.py, memory_leak_detector.py
    {"doctor", "analyze-dataloader analyze-model analyze-optimizer", .kind = CLI_COMPAT_NEEDLESS,
     .says = "all of them are always analysed"},
    {"doctor", "monitor-duration=", "--duration="},
    {"doctor", "threshold-mb=", .kind = CLI_COMPAT_IGNORED,
     .says = "leaks are judged by their trend (doc/formats/doctor.md)"},

    // --- run: train_main.py, adaptive_batch_size.py, adaptive_training.py
    {"run", "oom-recovery enable-oom-recovery", "--recover"},
    {"run", "adaptive-batch-size auto-adjust-batch-size", "--adaptive"},
    {"run", "target-memory-usage=", "--memory-threshold="},
    {"run", "monitor-memory-usage", .kind = CLI_COMPAT_NEEDLESS,
     .says = "memory is always watched"},
    {"run", "effective-batch-size=", .kind = CLI_COMPAT_NEEDLESS,
     .says = "batch x accumulation is always kept"},
    {"run", "gradient-accumulation-steps= accumulate-grad-batches=", "--accumulation="},
    {"run", "nproc-per-node=", "--ranks="},
    {"run", "master-port= distributed", .kind = CLI_COMPAT_NEEDLESS,
     .says = "--ranks starts torchrun, which chooses a port"},
    {"run",
     "mode= use-amp amp-opt-level= image-size= img-size= num-workers= compile-model compile-mode= "
     "use-checkpoint checkpoint-segments= offload-optimizer model-parallel "
     "pipeline-parallel-size= tensor-parallel-size= gradient-compression compression-ratio= "
     "use-calibration use-deepspeed zero-stage= max-steps= save-steps= epochs= data-path=",
     .kind = CLI_COMPAT_REFUSED, .says = TRAININGS_OWN},

    // --- bench: benchmark_tensorrt.py, convert_to_tensorrt.py, optimize_multi_gpu.py, ...
    {"bench", "benchmark-runs= profile-steps=", "--steps="},
    {"bench", "warmup-runs=", "--warmup="},
    {"bench", "max-batch-size=", "--batch-sizes="},
    {"bench", "model-path=", "--weights="},
    {"bench", "output-report=", "--output="},
    {"bench", "include-inference", "--inference"},
    {"bench", "compare-precision=", "--precision="},
    {"bench", "use-amp", "--amp=on"},
    {"bench", "compile-model", "--compile=on"},
    {"bench", "bucket-size-mb=", "--bucket-cap-mb="},
    {"bench", "allreduce-algorithm=", "--env=NCCL_ALGO="},
    {"bench", "backend=", .kind = CLI_COMPAT_REFUSED,
     .says = "it belongs to the training: --axis backend=nccl,gloo with {backend} in the command"},
    {"bench", "dynamo-backend=", .kind = CLI_COMPAT_IGNORED,
     .says = "PyTorch's own backend (inductor) compiles; --compile-mode MODE sets its mode"},
    {"bench", "engine-path= output-path=", .kind = CLI_COMPAT_IGNORED,
     .says = "--engine trtexec builds its engine from the model, or from --onnx FILE"},
    {"bench", "test-data=", .kind = CLI_COMPAT_IGNORED,
     .says = "--engine is timed on random inputs"},
    {"bench", "output-dir=", .kind = CLI_COMPAT_IGNORED,
     .says = "--output FILE.html writes the answer"},

    // --- explain: torch.profiler
    {"explain", "activities= record-shapes with-stack profile-memory", .kind = CLI_COMPAT_NEEDLESS,
     .says = "nothing runs: the model's tape lists every tensor with its shape and module"},
    {"explain", "output-trace=", .kind = CLI_COMPAT_IGNORED,
     .says = "--html FILE writes a page, --json the data"},

    // --- compare: compare_optimization.py, ab_test_gpu_settings.py, optimization_roi.py, ...
    {"compare", "config= baseline-config= config-a=", "--a="},
    {"compare", "optimized-config= config-b=", "--b="},
    {"compare", "output-report=", "--report="},
    {"compare", "cost-model=", "--cost="},
    {"compare", "duration= test-duration=", .kind = CLI_COMPAT_IGNORED,
     .says = "--pairs N and --steps N set how much is measured"},
    {"compare", "statistical-significance=", .kind = CLI_COMPAT_IGNORED,
     .says = "all intervals are 95 %; more --pairs narrow them"},
    {"compare",
     "measure-power-consumption calculate-performance-per-watt calculate-time-savings "
     "calculate-cost-savings",
     .kind = CLI_COMPAT_NEEDLESS, .says = "use --metrics energy and --cost"},
    {.verbs = NULL},
};
