// SPDX-License-Identifier: Apache-2.0
// The rows are read from the top; tests/cli/seeds.tsv has the commands that they come from, and
// tests/unit/compat.c fails on a row that names what does not exist.
#include "cmd/compat.h"

#define PREDICTS "fit infer explain team check doctor"
#define TRAININGS_OWN                                                                       \
    "it is the training's own: batchfit run --config FILE -- python train.py ..., with it " \
    "after the --"

const struct compat_row compat_table[] = {
    // --- One name for one thing
    {PREDICTS " record bench", "image-size=", COMPAT_BECOMES, .becomes = "--img-size="},
    {PREDICTS, "memory-safety-margin=", COMPAT_BECOMES, .becomes = "--safety-margin="},
    {PREDICTS, "safety-factor= memory-fraction=", COMPAT_BECOMES,
     .becomes = "--safety-margin=", .value = COMPAT_REST},
    {"fit infer explain doctor", "gpu-model=", COMPAT_BECOMES, .becomes = "--gpu="},
    {"fit infer explain doctor", "gpu-memory-limit=", COMPAT_BECOMES, .becomes = "--gpu-memory="},
    {PREDICTS " run", "config-section=", COMPAT_BECOMES, .becomes = "--section="},
    {PREDICTS, "use-amp", COMPAT_BECOMES, .becomes = "--precision=amp-fp16"},
    {PREDICTS, "use-checkpoint", COMPAT_BECOMES, .becomes = "--checkpointing"},

    // --- fit: auto_batch_size.py
    {"fit", "inference", COMPAT_BECOMES, .verb = "infer"},
    {"fit", "tta=", COMPAT_BECOMES, .becomes = "--tta=", .verb = "infer"},
    {"fit", "tta-table=", COMPAT_BECOMES, .becomes = "--tta-table=", .verb = "infer"},
    {"fit", "images=", COMPAT_BECOMES, .becomes = "--images=", .verb = "infer"},
    {"fit", "target-time=", COMPAT_BECOMES, .becomes = "--target-time=", .verb = "infer"},
    {"fit infer", "min-f1= min-f1-score=", COMPAT_BECOMES, .becomes = "--min-f1=", .verb = "infer"},
    {"fit infer", "tta-views-at-once= test-data=", COMPAT_REFUSED,
     .says = "batchfit infer --tta has the views run in turn, or stacked where the config says "
             "tta_mode: stacked; --images N says how many images there are"},
    {"fit", "multi-gpu", COMPAT_BECOMES, .becomes = "--ranks=", .value = COMPAT_RANKS},
    {"fit infer", "mode= find-optimal aggressive-optimization", COMPAT_NEEDLESS,
     .says = "the largest batch that fits is what is looked for"},
    {"fit infer", "enable-oom-recovery", COMPAT_NEEDLESS,
     .says = "a trial that runs out of memory is an answer; batchfit run --recover goes on after"},
    {"fit infer", "model-type=", COMPAT_IGNORED,
     .says = "the model is the config's, or --model NAME (batchfit list models)"},

    // --- infer: infer_main.py, recommend_tta.py
    {"infer", "eval-batch", COMPAT_REFUSED,
     .says = "batchfit infer itself answers for evaluation; batchfit fit --eval-batch has the "
             "evaluation of a training"},
    {"infer", "multi-gpu", COMPAT_NEEDLESS, .says = "each GPU predicts with a batch of its own"},
    {"infer", "optimize-for-inference fold-results= use-calibration", COMPAT_NEEDLESS,
     .says = "the batch depends neither on the weights nor on what is done with the outputs"},
    {"infer", "compile-model dynamo-backend= use-tensorrt engine-path=", COMPAT_REFUSED,
     .says = "the prediction is of eager PyTorch; batchfit bench --engine torch-compile trtexec "
             "measures the others"},

    // --- check: team_gpu_check.py
    {"check", "compatibility-matrix", COMPAT_BECOMES, .becomes = "--matrix"},
    {"check", "recommend-settings", COMPAT_BECOMES, .becomes = "--recommend"},
    {"check", "check-drivers", COMPAT_NEEDLESS, .says = "the driver is always looked at"},
    {"check", "analyze-team-performance", COMPAT_BECOMES, .verb = "team"},
    {"check team", "recommend-tta-type", COMPAT_BECOMES, .becomes = "--tta=auto", .verb = "infer"},

    // --- watch and serve: gpu_monitor.py
    {"watch", "dashboard export-prometheus", COMPAT_BECOMES, .verb = "serve"},
    {"watch", "port=", COMPAT_BECOMES, .becomes = "--port=", .verb = "serve"},
    {"watch", "log-file=", COMPAT_BECOMES, .becomes = "--log="},
    {"serve", "log= log-file=", COMPAT_BECOMES, .becomes = "--log=", .verb = "watch"},
    {"serve", "duration=", COMPAT_BECOMES, .becomes = "--duration=", .verb = "watch"},
    {"watch serve", "update-interval=", COMPAT_BECOMES, .becomes = "--interval="},
    {"watch serve", "multi-gpu", COMPAT_NEEDLESS, .says = "all GPUs are watched"},
    {"serve", "dashboard export-prometheus", COMPAT_NEEDLESS,
     .says = "/ is the dashboard and /metrics is for Prometheus"},

    // --- doctor: bottleneck_analyzer.py, memory_leak_detector.py
    {"doctor", "analyze-dataloader analyze-model analyze-optimizer", COMPAT_NEEDLESS,
     .says = "all of them are looked at"},
    {"doctor", "monitor-duration=", COMPAT_BECOMES, .becomes = "--duration="},
    {"doctor", "threshold-mb=", COMPAT_IGNORED,
     .says = "a leak is judged by its trend (doc/formats/doctor.md)"},

    // --- run: train_main.py, adaptive_batch_size.py, adaptive_training.py
    {"run", "oom-recovery enable-oom-recovery", COMPAT_BECOMES, .becomes = "--recover"},
    {"run", "adaptive-batch-size auto-adjust-batch-size", COMPAT_BECOMES, .becomes = "--adaptive"},
    {"run", "target-memory-usage=", COMPAT_BECOMES, .becomes = "--memory-threshold="},
    {"run", "monitor-memory-usage", COMPAT_NEEDLESS, .says = "the memory is always watched"},
    {"run", "effective-batch-size=", COMPAT_NEEDLESS, .says = "batch x accumulation is kept"},
    {"run", "gradient-accumulation-steps= accumulate-grad-batches=", COMPAT_BECOMES,
     .becomes = "--accumulation="},
    {"run", "nproc-per-node=", COMPAT_BECOMES, .becomes = "--ranks="},
    {"run", "master-port= distributed", COMPAT_NEEDLESS, .says = "--ranks has torchrun choose one"},
    {"run",
     "mode= use-amp amp-opt-level= image-size= img-size= num-workers= compile-model compile-mode= "
     "use-checkpoint checkpoint-segments= offload-optimizer model-parallel "
     "pipeline-parallel-size= tensor-parallel-size= gradient-compression compression-ratio= "
     "use-calibration use-deepspeed zero-stage= max-steps= save-steps= epochs= data-path=",
     COMPAT_REFUSED, .says = TRAININGS_OWN},

    // --- bench: benchmark_tensorrt.py, convert_to_tensorrt.py, optimize_multi_gpu.py, ...
    {"bench", "benchmark-runs= profile-steps=", COMPAT_BECOMES, .becomes = "--steps="},
    {"bench", "warmup-runs=", COMPAT_BECOMES, .becomes = "--warmup="},
    {"bench", "max-batch-size=", COMPAT_BECOMES, .becomes = "--batch-sizes="},
    {"bench", "model-path=", COMPAT_BECOMES, .becomes = "--weights="},
    {"bench", "output-report=", COMPAT_BECOMES, .becomes = "--output="},
    {"bench", "include-inference", COMPAT_BECOMES, .becomes = "--inference"},
    {"bench", "compare-precision=", COMPAT_BECOMES, .becomes = "--precision="},
    {"bench", "use-amp", COMPAT_BECOMES, .becomes = "--amp=on"},
    {"bench", "compile-model", COMPAT_BECOMES, .becomes = "--compile=on"},
    {"bench", "bucket-size-mb=", COMPAT_BECOMES, .becomes = "--axis=bucket_mb="},
    {"bench", "allreduce-algorithm=", COMPAT_BECOMES, .becomes = "--env=NCCL_ALGO="},
    {"bench", "backend=", COMPAT_REFUSED,
     .says = "it is the training's own: --axis backend=nccl,gloo with {backend} in the command"},
    {"bench", "dynamo-backend=", COMPAT_IGNORED,
     .says =
         "PyTorch's own backend (inductor) is compiled with; --compile-mode MODE has its modes"},
    {"bench", "engine-path= output-path=", COMPAT_IGNORED,
     .says = "--engine trtexec builds its engine from the model, or from --onnx FILE"},
    {"bench", "test-data=", COMPAT_IGNORED, .says = "--engine is timed with inputs at random"},
    {"bench", "output-dir=", COMPAT_IGNORED, .says = "--output FILE.html writes the answer"},

    // --- explain: torch.profiler
    {"explain", "activities= record-shapes with-stack profile-memory", COMPAT_NEEDLESS,
     .says = "nothing is run: the model's tape has every tensor with its shape and module"},
    {"explain", "output-trace=", COMPAT_IGNORED, .says = "--html FILE writes a page, --json data"},

    // --- compare: compare_optimization.py, ab_test_gpu_settings.py, optimization_roi.py, ...
    {"compare", "config= baseline-config= config-a=", COMPAT_BECOMES, .becomes = "--a="},
    {"compare", "optimized-config= config-b=", COMPAT_BECOMES, .becomes = "--b="},
    {"compare", "output-report=", COMPAT_BECOMES, .becomes = "--report="},
    {"compare", "cost-model=", COMPAT_BECOMES, .becomes = "--cost="},
    {"compare", "duration= test-duration=", COMPAT_IGNORED,
     .says = "--pairs N and --steps N say how much is measured"},
    {"compare", "statistical-significance=", COMPAT_IGNORED,
     .says = "all intervals are of 95 %; more --pairs make them narrower"},
    {"compare",
     "measure-power-consumption calculate-performance-per-watt calculate-time-savings "
     "calculate-cost-savings",
     COMPAT_NEEDLESS, .says = "--metrics energy and --cost say it"},
    {.verbs = NULL},
};
