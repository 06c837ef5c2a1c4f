// SPDX-License-Identifier: Apache-2.0
// The rows are read from the top; tests/cli/seeds.tsv has the commands that they come from, and
// tests/unit/cli_compat.c fails on a row that names what does not exist.
#include "cli/compat.h"

#define PREDICTS "fit infer explain team check doctor"
#define TRAININGS_OWN                                                                       \
    "it is the training's own: batchfit run --config FILE -- python train.py ..., with it " \
    "after the --"

const struct cli_compat_row cli_compat_table[] = {
    // --- One name for one thing
    {PREDICTS " record bench", "image-size=", "--img-size="},
    {PREDICTS, "memory-safety-margin=", "--safety-margin="},
    {PREDICTS, "safety-factor= memory-fraction=", "--safety-margin=", .value = CLI_COMPAT_REST},
    {"fit infer explain doctor", "gpu-model=", "--gpu="},
    {"fit infer explain doctor", "gpu-memory-limit=", "--gpu-memory="},
    {PREDICTS " run", "config-section=", "--section="},
    {PREDICTS, "use-amp", "--precision=amp-fp16"},
    {PREDICTS, "use-checkpoint", "--checkpointing"},

    // --- fit: auto_batch_size.py
    {"fit", "inference", NULL, "infer"},
    {"fit", "tta= tta-table= images= target-time=", "=", "infer"},
    {"fit infer", "min-f1= min-f1-score=", "--min-f1=", "infer"},
    {"fit infer", "tta-views-at-once= test-data=", .kind = CLI_COMPAT_REFUSED,
     .says = "batchfit infer --tta has the views run in turn, or stacked where the config says "
             "tta_mode: stacked; --images N says how many images there are"},
    {"fit", "multi-gpu", "--ranks=", .value = CLI_COMPAT_RANKS},
    {"fit infer", "mode= find-optimal aggressive-optimization", .kind = CLI_COMPAT_NEEDLESS,
     .says = "the largest batch that fits is what is looked for"},
    {"fit infer", "enable-oom-recovery", .kind = CLI_COMPAT_NEEDLESS,
     .says = "a trial that runs out of memory is an answer; batchfit run --recover goes on after"},
    {"fit infer", "model-type=", .kind = CLI_COMPAT_IGNORED,
     .says = "the model is the config's, or --model NAME (batchfit list models)"},

    // --- infer: infer_main.py, recommend_tta.py
    {"infer", "eval-batch", .kind = CLI_COMPAT_REFUSED,
     .says = "batchfit infer itself answers for evaluation; batchfit fit --eval-batch has the "
             "evaluation of a training"},
    {"infer", "multi-gpu", .kind = CLI_COMPAT_NEEDLESS,
     .says = "each GPU predicts with a batch of its own"},
    {"infer", "optimize-for-inference fold-results= use-calibration", .kind = CLI_COMPAT_NEEDLESS,
     .says = "the batch depends neither on the weights nor on what is done with the outputs"},
    {"infer", "compile-model dynamo-backend= use-tensorrt engine-path=", .kind = CLI_COMPAT_REFUSED,
     .says = "the prediction is of eager PyTorch; batchfit bench --engine torch-compile trtexec "
             "measures the others"},

    // --- check: team_gpu_check.py
    {"check", "compatibility-matrix", "--matrix"},
    {"check", "recommend-settings", "--recommend"},
    {"check", "check-drivers", .kind = CLI_COMPAT_NEEDLESS,
     .says = "the driver is always looked at"},
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
     .says = "/ is the dashboard and /metrics is for Prometheus"},

    // --- doctor: bottleneck_analyzer.py, memory_leak_detector.py
    {"doctor", "analyze-dataloader analyze-model analyze-optimizer", .kind = CLI_COMPAT_NEEDLESS,
     .says = "all of them are looked at"},
    {"doctor", "monitor-duration=", "--duration="},
    {"doctor", "threshold-mb=", .kind = CLI_COMPAT_IGNORED,
     .says = "a leak is judged by its trend (doc/formats/doctor.md)"},

    // --- run: train_main.py, adaptive_batch_size.py, adaptive_training.py
    {"run", "oom-recovery enable-oom-recovery", "--recover"},
    {"run", "adaptive-batch-size auto-adjust-batch-size", "--adaptive"},
    {"run", "target-memory-usage=", "--memory-threshold="},
    {"run", "monitor-memory-usage", .kind = CLI_COMPAT_NEEDLESS,
     .says = "the memory is always watched"},
    {"run", "effective-batch-size=", .kind = CLI_COMPAT_NEEDLESS,
     .says = "batch x accumulation is kept"},
    {"run", "gradient-accumulation-steps= accumulate-grad-batches=", "--accumulation="},
    {"run", "nproc-per-node=", "--ranks="},
    {"run", "master-port= distributed", .kind = CLI_COMPAT_NEEDLESS,
     .says = "--ranks has torchrun choose one"},
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
    {"bench", "bucket-size-mb=", "--axis=bucket_mb="},
    {"bench", "allreduce-algorithm=", "--env=NCCL_ALGO="},
    {"bench", "backend=", .kind = CLI_COMPAT_REFUSED,
     .says = "it is the training's own: --axis backend=nccl,gloo with {backend} in the command"},
    {"bench", "dynamo-backend=", .kind = CLI_COMPAT_IGNORED,
     .says =
         "PyTorch's own backend (inductor) is compiled with; --compile-mode MODE has its modes"},
    {"bench", "engine-path= output-path=", .kind = CLI_COMPAT_IGNORED,
     .says = "--engine trtexec builds its engine from the model, or from --onnx FILE"},
    {"bench", "test-data=", .kind = CLI_COMPAT_IGNORED,
     .says = "--engine is timed with inputs at random"},
    {"bench", "output-dir=", .kind = CLI_COMPAT_IGNORED,
     .says = "--output FILE.html writes the answer"},

    // --- explain: torch.profiler
    {"explain", "activities= record-shapes with-stack profile-memory", .kind = CLI_COMPAT_NEEDLESS,
     .says = "nothing is run: the model's tape has every tensor with its shape and module"},
    {"explain", "output-trace=", .kind = CLI_COMPAT_IGNORED,
     .says = "--html FILE writes a page, --json data"},

    // --- compare: compare_optimization.py, ab_test_gpu_settings.py, optimization_roi.py, ...
    {"compare", "config= baseline-config= config-a=", "--a="},
    {"compare", "optimized-config= config-b=", "--b="},
    {"compare", "output-report=", "--report="},
    {"compare", "cost-model=", "--cost="},
    {"compare", "duration= test-duration=", .kind = CLI_COMPAT_IGNORED,
     .says = "--pairs N and --steps N say how much is measured"},
    {"compare", "statistical-significance=", .kind = CLI_COMPAT_IGNORED,
     .says = "all intervals are of 95 %; more --pairs make them narrower"},
    {"compare",
     "measure-power-consumption calculate-performance-per-watt calculate-time-savings "
     "calculate-cost-savings",
     .kind = CLI_COMPAT_NEEDLESS, .says = "--metrics energy and --cost say it"},
    {.verbs = NULL},
};
