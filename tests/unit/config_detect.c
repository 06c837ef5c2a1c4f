// SPDX-License-Identifier: Apache-2.0
// Files in the shape of real ones (tests/configs/): which dialect, where the batch is, what the run
// is. A "-" expects nothing there.
#include "unit.h"

#include "base/os.h"
#include "records/config/config.h"
#include "records/config/dialect_int.h"

#include <stdio.h>
#include <stdlib.h>

struct row {
    const char *file, *dialect, *batch_path;
    int64_t batch;
    char unit;
    int64_t effective; // with one device
    const char *precision, *model;
    int64_t size; // image size, else sequence length
    const char *warning, *section, *refusal;
    bool hydra;
    const char *optimizer; // NULL: whatever it is
};

static const struct row rows[] = {
    {"seed_sections.yaml", "sections", "training.batch_size", 16, 'D', 256, "amp-fp16",
     "efficientnet_b0", 224},
    {"seed_flat_yolo.yaml", "flat", "batch_size", 16, 'D', 32, "amp-fp16", "-", 640},
    {"seed_data_section.yaml", "sections", "data.batch_size", 256, 'D', 1024, "amp-fp16", "-", 0},
    {"seed_two_models.yaml", "huggingface", "xlsum_mt5.training.per_device_train_batch_size", 4,
     'D', 8, "fp32", "google/mt5-base", 512, "xlsum_mt5.inference.batch_size = 8",
     .section = "xlsum_mt5"},
    {"seed_two_models.yaml", "huggingface", "eenzeenee.training.per_device_train_batch_size", 8,
     'D', 16, "amp-fp16", "eenzeenee/t5-base-korean-summarization", 0,
     "eenzeenee.inference.batch_size = 16", .section = "eenzeenee"},
    {"team_settings.yaml", "team", "-", 0, 0, 0, "-", "-", 0, .refusal = "batchfit team"},
    {"sections_twins.yaml", "sections", "train.batch_size", 64, 'D', 64, "amp-fp16",
     "swin_base_patch4_window12_384", 384, "training.batch_size in line 15 stays"},
    {"sections_anchors.yaml", "sections", "train.batch_size", 8, 'D', 16, "fp32", "UnetPlusPlus",
     512, "test.batch_size = 1"},
    {"sections_mrc.yaml", "lightning_tree", "data.batch_size", 16, 'D', 16, "amp-fp16",
     "klue/roberta-large", 384},
    {"sections_train_batch.yaml", "sections", "train.train_batch_size", 32, 'D', 32, "amp-fp16",
     "-", 380, "train.val_batch_size = 64"},
    {"flat_team.yaml", "flat", "batch_size", 32, 'D', 32, "fp32", "resnet50", 380},
    {"hf_flat.yaml", "huggingface", "per_device_train_batch_size", 16, 'D', 32, "amp-fp16",
     "klue/bert-base", 256},
    {"hf_nested_korean.yaml", "huggingface", "training.per_device_train_batch_size", 2, 'D', 2,
     "amp-bf16", "csebuetnlp/mT5_multilingual_XLSum", 768, "per_device_eval_batch_size = 2"},
    {"hf_args.json", "huggingface", "trainer.per_device_train_batch_size", 4, 'D', 128, "amp-fp16",
     "some/llama-13b", 0},
    {"trl_sft.yaml", "trl", "per_device_train_batch_size", 4, 'D', 8, "amp-bf16",
     "mistralai/Mistral-7B-v0.1", 2048},
    {"llamafactory_lora.yaml", "llamafactory", "per_device_train_batch_size", 1, 'D', 8, "amp-bf16",
     "Qwen/Qwen3-4B", 2048},
    {"swift_args.yaml", "swift", "per_device_train_batch_size", 2, 'D', 16, "amp-bf16",
     "Qwen/Qwen2.5-7B-Instruct", 4096},
    {"axolotl_lora.yml", "axolotl", "micro_batch_size", 2, 'D', 8, "amp-bf16",
     "TinyLlama/TinyLlama-1.1B", 4096, "sample_packing"},
    {"axolotl_total.yml", "axolotl", "micro_batch_size", 4, 'D', 32, "amp-bf16", "some/model",
     2048},
    {"ultralytics_args.yaml", "ultralytics", "batch", 16, 'G', 64, "amp-fp16", "yolov8m.pt", 640,
     .refusal = "record of a finished run"},
    {"ultralytics_default.yaml", "ultralytics", "batch", 16, 'G', 64, "amp-fp16", "yolov8n.pt",
     640},
    {"ultralytics_part.yaml", "ultralytics", "batch", 24, 'G', 72, "amp-fp16", "yolov8s-seg.pt",
     640},
    {"timm_args.yaml", "timm", "batch_size", 384, 'D', 384, "amp-fp16", "efficientnet_b0", 0},
    {"lightning_cli.yaml", "lightning", "data.init_args.batch_size", 16, 'D', 16, "amp-fp16",
     "models.Climate", 0, .hydra = true},
    {"hydra_ocr.yaml", "lightning_tree", "data.batch_size", 16, 'D', 16, "amp-fp16", "-", 0,
     "Hydra", .hydra = true},
    {"hydra_data.yaml", "flat", "batch_size", 128, 'D', 128, "fp32", "-", 0, "Hydra",
     .hydra = true},
    {"deepspeed_full.json", "deepspeed", "train_micro_batch_size_per_gpu", 4, 'D', 32, "amp-fp16",
     "-", 0, "training arguments"},
    {"deepspeed_auto.json", "deepspeed", "train_micro_batch_size_per_gpu", 0, 'D', 0, "-", "-", 0},
    {"torchtune_lora.yaml", "torchtune", "batch_size", 4, 'D', 32, "bf16",
     "torchtune.models.llama3_2.lora_llama3_2_1b", 0, "batch_size_val takes its value",
     .hydra = true},
    {"litgpt_lora.yaml", "litgpt", "train.micro_batch_size", 4, 'D', 8, "bf16",
     "checkpoints/TinyLlama", 512},
    {"llmfoundry_mpt.yaml", "llmfoundry", "device_train_microbatch_size", 16, 'D', 256, "amp-bf16",
     "mpt_causal_lm", 2048, .hydra = true},
    {"nemo_gpt.yaml", "nemo", "model.micro_batch_size", 4, 'D', 64, "amp-bf16", "-", 512},
    {"detectron2_base.yaml", "detectron2", "SOLVER.IMS_PER_BATCH", 16, 'G', 16, "fp32",
     "GeneralizedRCNN", 1333},
    {"detectron2_child.yaml", "detectron2", "SOLVER.IMS_PER_BATCH", 0, 'G', 0, "-",
     "detectron2://R-50.pkl", 0, "Base-RCNN-FPN.yaml: there is no such file"},
    {"yacs_pycls.yaml", "yacs", "TRAIN.BATCH_SIZE", 128, '?', 128, "fp32", "anynet", 32},
    {"paddleocr_det.yml", "paddleocr", "Train.loader.batch_size_per_card", 16, 'D', 16, "fp32",
     "DB", 0},
    {"accelerate_z2.yaml", "accelerate", "-", 0, 0, 0, "amp-bf16", "-", 0,
     .refusal = "how to launch"},
    {"wandb_record.yaml", "wandb", "-", 0, 0, 0, "-", "-", 0, .refusal = "wandb"},
    {"sweep.yaml", "sweep", "parameters.batch_size.values", 32, 'D', 32, "-", "-", 0,
     .refusal = "sweep"},
    {"hf_model_config.json", "hf_model", "-", 0, 0, 0, "-", "-", 0, .refusal = "describes a model"},
    {"yolo_data.yaml", "yolo_data", "-", 0, 0, 0, "-", "-", 0, .refusal = "dataset"},
    {"yolov5_hyp.yaml", "yolo_hyp", "-", 0, 0, 0, "-", "-", 0, .refusal = "options of train.py"},
    {"compose.yml", "compose", "-", 0, 0, 0, "-", "-", 0, .refusal = "containers"},
    {"mmengine_bs64.py", "mmengine", "train_dataloader.batch_size", 64, 'D', 0, "-", "-", 0,
     "base.py: there is no such file", .refusal = "Python"},
    {"mmengine_parts.py", "mmengine", "train_dataloader.batch_size", 32, 'D', 128, "amp-bf16",
     "ResNet101", 224, "workers 5 (mmengine_part_data.py:8)", .refusal = "Python"},
    {"mmengine_lazy.py", "mmengine", "train_dataloader.batch_size", 48, 'D', 48, "fp32", "-", 224,
     .refusal = "Python"},
    {"mmcv_coco.py", "mmcv", "data.samples_per_gpu", 2, 'D', 2, "fp32", "-", 0,
     .refusal = "Python"},
    {"mmcv_parts.py", "mmcv", "data.samples_per_gpu", 8, 'D', 16, "amp-fp16", "FasterRCNN", 0,
     "workers 2 (mmcv_part_data.py:3)", .refusal = "Python"},
    {"nanogpt_char.py", "nanogpt", "batch_size", 16, 'D', 640, "amp-fp16", "-", 512,
     "several processes", .refusal = "Python"},
    {"lazy_mask.py", "lazy", "dataloader.train.total_batch_size", 16, 'G', 16, "amp-fp16",
     "GeneralizedRCNN", 0, "nothing is assumed: image_size, optimizer, workers",
     .refusal = "Python"},
    {"torchtitan_llama.toml", "torchtitan", "training.local_batch_size", 1, 'D', 1, "amp-bf16",
     "llama3", 8192, .refusal = "TOML"},
    {"kohya_lora.toml", "kohya", "training.train_batch_size", 2, 'D', 8, "amp-bf16",
     "stabilityai/stable-diffusion-xl-base-1.0", 1024, .refusal = "TOML"},
    {"kohya_data.toml", "kohya_data", "datasets[0].batch_size", 4, 'D', 4, "-", "-", 768,
     "every [[datasets]]", .refusal = "TOML"},
    {"hf_train.sh", "huggingface", "per_device_train_batch_size", 4, 'D', 32, "amp-bf16",
     "Qwen/Qwen2.5-1.5B", 2048, .refusal = "command line"},
    {"kohya_lora.sh", "kohya", "train_batch_size", 8, 'D', 8, "amp-fp16",
     "runwayml/stable-diffusion-v1-5", 512, .refusal = "command line"},
    {"train.sh", "flat", "batch_size", 32, 'D', 32, "amp-fp16", "-", 0, .refusal = "command line"},
    {"mmengine_part_data.py", "mmengine", "train_dataloader.batch_size", 16, 'D', 16, "fp32", "-",
     224, "val_dataloader.batch_size = 64", .refusal = "Python"},
    {"settings.ini", "foreign", "-", 0, 0, 0, "-", "-", 0, .refusal = "YAML and JSON"},
    // Each trainer of its own, in its own style.
    {"gptneox_small.yml", "gptneox", "train_micro_batch_size_per_gpu", 8, 'D', 32, "amp-bf16", "-",
     2048},
    {"swin_tiny.yaml", "swin", "DATA.BATCH_SIZE", 128, 'D', 128, "amp-fp16",
     "swin_tiny_patch4_window7_224", 256},
    {"basicsr_sr.yml", "basicsr", "datasets.train.batch_size_per_gpu", 12, 'D', 12, "fp32",
     "RRDBNet", 192, "gt_size is the pixels of the target"},
    {"rtdetr_voc.yml", "rtdetr", "train_dataloader.total_batch_size", 16, 'G', 16, "amp-fp16", "-",
     640, "runtime.yml: there is no such file"},
    {"rtdetr_child.yml", "rtdetr", "train_dataloader.total_batch_size", 16, 'G', 16, "amp-fp16",
     "-", 640, "batch 16 (rtdetr_voc.yml:7)"},
    {"ldm_faces.yaml", "ldm", "data.params.batch_size", 12, 'D', 24, "fp32",
     "ldm.models.diffusion.ddpm.LatentDiffusion", 256},
    {"aitoolkit_lora.yaml", "aitoolkit", "config.process[0].train.batch_size", 2, 'D', 6,
     "amp-bf16", "some/image-model", 1024},
    {"efficientvit_cls.yaml", "efficientvit", "data_provider.base_batch_size", 128, 'D', 128,
     "fp32", "efficientvit-b1", 224},
    {"dinov2_vitl.yaml", "dinov2", "train.batch_size_per_gpu", 32, 'D', 32, "amp-fp16", "vit_large",
     224},
    {"ijepa_vith.yaml", "ijepa", "data.batch_size", 128, 'D', 128, "amp-bf16", "vit_huge", 224},
    {"nanotron_small.yaml", "nanotron", "tokens.micro_batch_size", 3, 'D', 6, "bf16", "-", 4096},
    {"olmo_1b.yaml", "olmo", "device_train_microbatch_size", 4, 'D', 512, "amp-bf16", "-", 4096},
    {"nemo_asr.yaml", "nemo_data", "model.train_ds.batch_size", 16, 'D', 32, "amp-bf16", "-", 0,
     .hydra = true},
    {"nemo_sft.yaml", "nemo", "model.micro_batch_size", 1, 'D', 64, "amp-bf16", "llama.nemo", 2048},
    {"smp_flat.yaml", "flat", "batch_size", 8, 'D', 16, "amp-fp16", "UnetPlusPlus", 512},
    {"ensemble_folds.yaml", "sections", "train.batch_size", 48, 'D', 48, "amp-fp16",
     "convnext_base_384_in22ft1k", 384},
    {"slowfast_r50.yaml", "yacs", "TRAIN.BATCH_SIZE", 64, '?', 64, "amp-fp16", "SlowFast", 224},
    {"vits_base.json", "voice", "train.batch_size", 64, 'D', 64, "amp-fp16", "-", 0},
    {"optuna_space.yaml", "sweep", "search_space.batch_size.choices", 96, 'D', 96, "-", "-", 0,
     "the largest, 96, must fit", .refusal = "its largest batch must fit"},
    {"sweep_wandb.yaml", "sweep", "parameters.\"train.train_batch_size\".values", 64, 'D', 64, "-",
     "-", 0, "the largest, 64, must fit", .refusal = "its largest batch must fit"},
    // As strangers write them.
    {"yolov5_train.sh", "yolov5", "batch_size", 48, 'G', 48, "amp-fp16", "yolov5m.yaml", 512,
     .refusal = "command line"},
    {"open_clip_b16.sh", "open_clip", "batch_size", 128, 'D', 512, "amp-bf16", "ViT-B-16", 0,
     "how many processes srun starts", .refusal = "command line"},
    {"megatron_gpt.sh", "megatron", "micro_batch_size", 4, 'D', 128, "amp-bf16", "-", 2048,
     "ranks (line 8: 4 on $NODES machines)", .refusal = "command line"},
    {"openrlhf_sft.sh", "openrlhf", "micro_train_batch_size", 4, 'D', 64, "amp-bf16",
     "Qwen/Qwen2.5-1.5B", 4096, .refusal = "command line"},
    {"fairseq_speech.yaml", "fairseq", "dataset.batch_size", 12, 'D', 96, "amp-fp16", "wav2vec2", 0,
     "dataset.max_tokens", .hydra = true},
    {"espnet_folded.yaml", "espnet", "batch_size", 48, 'G', 96, "amp-fp16", "-", 0},
    {"espnet_numel.yaml", "espnet", "batch_size", 20, 'G', 80, "fp32", "-", 0},
    {"nnunet_plans.json", "nnunet", "-", 0, 0, 0, "-", "-", 0,
     .refusal = "planner has already chosen"},
    {"paddleclas_net.yaml", "paddleclas", "DataLoader.Train.sampler.batch_size", 96, 'D', 96,
     "amp-fp16", "PPLCNet_x1_0", 256},
    {"paddledet_ppyoloe.yml", "paddledet", "TrainReader.batch_size", 8, 'D', 8, "fp32", "PPYOLOE",
     0, "batch 8 (paddledet_reader.yml:2)"},
    {"tune_run.sh", "tune_run", "batch_size", 6, 'D', 24, "bf16", "-", 0, "--config",
     .refusal = "command line"},
    {"litgpt_lora.sh", "litgpt", "train.micro_batch_size", 4, 'D', 32, "bf16",
     "meta-llama/Llama-3.2-1B", 512, .refusal = "command line"},
    {"deepspeed_program.sh", "deepspeed_program", "deepspeed_config.train_micro_batch_size_per_gpu",
     6, 'D', 48, "amp-bf16", "Qwen/Qwen2.5-0.5B", 1024, .refusal = "command line"},
    {"alpaca_lora.sh", "alpaca_lora", "micro_batch_size", 6, 'D', 96, "amp-fp16",
     "huggyllama/llama-7b", 384, .refusal = "command line"},
    {"llava_lora.sh", "huggingface", "per_device_train_batch_size", 8, 'D', 16, "amp-bf16",
     "some/vicuna-7b", 2048, "how many processes deepspeed starts", .refusal = "command line"},
    {"accelerate_launch.sh", "huggingface", "per_device_train_batch_size", 4, 'D', 4, "amp-fp16",
     "Qwen/Qwen2.5-0.5B", 1024, "precision fp16 (launch_accelerate.yaml:4)",
     .refusal = "command line"},
    {"diffusers_lora.sh", "kohya", "train_batch_size", 3, 'D', 3, "amp-bf16", "some/diffusion-xl",
     768, .refusal = "command line"},
    {"dino_vits.sh", "flat", "batch_size_per_gpu", 48, 'D', 48, "amp-fp16", "vit_small", 0,
     .refusal = "command line"},
    {"grpo_small.yaml", "trl", "per_device_train_batch_size", 8, 'D', 8, "amp-bf16",
     "Qwen/Qwen2.5-1.5B-Instruct", 1792, "the sequence length is 1792"},
    {"slowfast_total.yaml", "slowfast", "TRAIN.BATCH_SIZE", 32, 'G', 32, "fp32", "X3D", 224},
    {"llamafactory_chat.yaml", "llamafactory", "per_device_train_batch_size", 8, 'D', 8, "fp32",
     "Qwen/Qwen3-4B", 2048},
    {"llamafactory_merge.yaml", "llamafactory_export", "-", 0, 0, 0, "-", "-", 0,
     .refusal = "trains nothing"},
    {"vllm_server.yaml", "vllm", "-", 0, 0, 0, "-", "-", 0, .refusal = "trains nothing"},
    {"sglang_server.yaml", "sglang", "-", 0, 0, 0, "-", "-", 0, .refusal = "trains nothing"},
    {"swin_apex.yaml", "swin", "DATA.BATCH_SIZE", 32, 'D', 128, "fp32",
     "swin_small_patch4_window7_224", 224},
    {"ensemble_list.yaml", "none", "-", 0, 0, 0, "fp32", "convnext_tiny", 0,
     .refusal = "no key is a known trainer's batch size"},
    {"nemo_scratch.yaml", "nemo", "model.micro_batch_size", 2, 'D', 32, "amp-bf16", "-", 1024},
    {"rtdetr_named.yml", "rtdetr", "train_dataloader.batch_size", 4, 'D', 4, "fp32", "RTDETR", 0},
    {"mmseg_city.py", "mmengine", "train_dataloader.batch_size", 4, 'D', 4, "fp32",
     "EncoderDecoder", 1024, .refusal = "Python"},
    {"mmdet_timm.py", "mmengine", "train_dataloader.batch_size", 6, 'D', 6, "fp32", "RetinaNet",
     1024, .refusal = "Python"},
    {"verl_sft.yaml", "verl_sft", "data.micro_batch_size_per_gpu", 2, 'D', 128, "amp-bf16",
     "Qwen/Qwen2.5-0.5B-Instruct", 1536, "use_dynamic_bsz"},
    {"supergradients_net.yaml", "supergradients",
     "dataset_params.train_dataloader_params.batch_size", 20, 'D', 60, "amp-fp16", "pp_yoloe_s",
     512},
    {"xtuner_lora.py", "xtuner", "train_dataloader.batch_size", 2, 'D', 16, "amp-fp16",
     "Qwen/Qwen1.5-0.5B", 1024, .refusal = "Python"},
    {"rest_args.sh", "huggingface", "per_device_train_batch_size", 24, 'D', 48, "amp-fp16",
     "bert-base-uncased", 128, "may be in what was not read", .refusal = "command line"},
    {"pl_gpus.yaml", "sections", "data.train.batch_size", 24, 'D', 48, "amp-fp16",
     "efficientnet_b3", 300},
    {"verl_ppo.yaml", "verl", "-", 0, 0, 0, "-", "-", 0, .refusal = "not one training"},
    {"array_args.sh", "flat", "batch_size", 2, 'D', 6, "amp-bf16", "resnet50", 0,
     .refusal = "command line"},
    {"vissl_simclr.yaml", "vissl", "config.DATA.TRAIN.BATCHSIZE_PER_REPLICA", 64, 'D', 64,
     "amp-fp16", "resnet", 0},
    {"audiocraft_gen.yaml", "audiocraft", "dataset.batch_size", 96, 'G', 96, "amp-fp16", "-", 0},
    {"sat_video.yaml", "sat", "deepspeed.train_micro_batch_size_per_gpu", 2, 'D', 4, "amp-bf16",
     "-", 0},
    {"minigpt4_align.yaml", "lavis", "datasets.cc_sbu_align.batch_size", 12, 'D', 12, "amp-fp16",
     "minigpt4", 224},
    {"amp_anywhere.yaml", "sections", "data.batch_size", 8, 'D', 8, "amp-fp16", "resnet50", 224},
    {"pixart_xl.py", "pixart", "train_batch_size", 10, 'D', 20, "amp-bf16", "PixArtMS_XL_2", 512,
     .refusal = "Python", .optimizer = "AdamW"},
    {"llamafactory_v1.yaml", "llamafactory_v1", "micro_batch_size", 2, 'D', 16, "amp-bf16",
     "some/model-0.5b", 1024},
    {"openrlhf_dpo.sh", "openrlhf_cli", "train.micro_batch_size", 2, 'D', 64, "amp-bf16",
     "some/chat-model", 4096, .refusal = "command line"},
    {"dinov3_vits.yaml", "dinov3", "train.batch_size_per_gpu", 48, 'D', 48, "amp-bf16", "vit_small",
     256},
    {"detectron2_crop.yaml", "detectron2_crop", "SOLVER.IMS_PER_BATCH", 8, 'G', 8, "amp-fp16",
     "SemanticSegmentor", 768, .optimizer = "ADAMW"},
    {"verl_generate.yaml", "verl_generate", "-", 0, 0, 0, "-", "-", 0, .refusal = "trains nothing"},
    {"paddleseg_road.yml", "paddleseg", "batch_size", 6, 'D', 6, "-", "PPLiteSeg", 768,
     "--precision fp16"},
    {"solo_byol.yaml", "solo", "optimizer.batch_size", 128, 'D', 256, "amp-bf16", "resnet34", 96,
     .optimizer = "lars"},
    {"template_mnist.json", "pytorch_template", "data_loader.args.batch_size", 40, 'G', 40, "fp32",
     "OwnNet", 0, .optimizer = "Adam"},
    {"simpletuner_control.json", "simpletuner", "train_batch_size", 2, 'D', 6, "amp-bf16",
     "some/picture-model", 768},
    {"onetrainer_lora.json", "onetrainer", "batch_size", 3, 'D', 6, "amp-bf16",
     "some/picture-model", 1024},
    {"lingua_small.yaml", "lingua", "data.batch_size", 12, 'D', 48, "amp-bf16", "-", 1024,
     .optimizer = "AdamW"},
    {"swift_megatron.sh", "swift_megatron", "micro_batch_size", 2, 'D', 32, "amp-bf16",
     "some/model-8b", 4096, .refusal = "command line"},
    {"yolov7_d2.yaml", "yolov7_d2", "SOLVER.IMS_PER_BATCH", 10, 'G', 10, "fp32", "YOLOX", 640,
     .optimizer = "SGD"},
    {"speaker_net.yaml", "sections", "dataloader_args.batch_size", 48, 'D', 48, "amp-fp16",
     "SmallNet", 0},
    {"sam2_clips.yaml", "sam2", "scratch.train_batch_size", 2, 'D', 2, "amp-bf16",
     "training.model.sam2.SAM2Train", 512, .hydra = true, .optimizer = "torch.optim.AdamW"},
    {"forge_finetune.yaml", "torchtitan_yaml", "training.local_batch_size", 2, 'D', 32, "amp-bf16",
     "llama3-1B", 4096, .optimizer = "AdamW"},
    {"oumi_sft.yaml", "oumi", "training.per_device_train_batch_size", 2, 'D', 16, "bf16",
     "some/model-1b", 4096, .optimizer = "adafactor"},
    {"oumi_verl.yaml", "oumi_verl", "-", 0, 0, 0, "-", "-", 0, .refusal = "share the GPUs"},
    {"oumi_judge.yaml", "oumi_other", "-", 0, 0, 0, "-", "-", 0, .refusal = "judges"},
    {"sky_job.yaml", "sky", "-", 0, 0, 0, "-", "-", 0, .refusal = "describes a job"},
    {"open_instruct.yaml", "open_instruct", "per_device_train_batch_size", 2, 'D', 8, "amp-bf16",
     "some/model-8b", 2048, .optimizer = "adamw_torch_fused"},
    {"open_instruct_grpo.sh", "open_instruct_rl", "-", 0, 0, 0, "-", "-", 0,
     .refusal = "not one training"},
    {"autotrain_qlora.yml", "autotrain_lora", "params.batch_size", 1, 'D', 8, "amp-bf16",
     "some/model-2b", 2048},
    {"autotrain_dpo.yml", "autotrain_llm", "params.batch_size", 4, 'D', 16, "amp-fp16",
     "some/model-1b", 1024},
    {"autotrain_text.yml", "autotrain", "params.batch_size", 16, 'D', 16, "amp-fp16",
     "some/encoder-base", 256},
    {"h2o_studio.yaml", "h2ostudio", "training.batch_size", 3, 'D', 12, "amp-bf16", "some/model-1b",
     512, .optimizer = "AdamW8bit"},
    {"qlora_chat.sh", "qlora", "per_device_train_batch_size", 4, 'D', 8, "amp-bf16",
     "some/model-7b", 1024, .refusal = "command line", .optimizer = "paged_adamw_32bit"},
    {"deepspeed_chat.sh", "deepspeed_chat", "per_device_train_batch_size", 8, 'D', 8, "amp-fp16",
     "some/model-1b", 1024, .refusal = "command line"},
    {"ludwig_llm.yaml", "ludwig", "-", 0, 0, 0, "-", "-", 0, .refusal = "Ludwig decides"},
    {"llmfoundry_eval.yaml", "llmfoundry_eval", "-", 0, 0, 0, "-", "some/model-1b", 0,
     .refusal = "trains none"},
    {"forge_rl.yaml", "forge", "-", 0, 0, 0, "-", "-", 0, .refusal = "spread over the GPUs",
     .hydra = true},
    {"tagger.jsonnet", "jsonnet", "-", 0, 0, 0, "-", "-", 0, .refusal = "is not run"},
    {"xtuner_rl.py", "xtuner_v1", "-", 0, 0, 0, "-", "-", 0, .refusal = "not run"},
    {"mmengine_mask.py", "mmengine", "train_dataloader.batch_size", 20, 'D', 20, "amp-fp16", "CAE",
     224, .refusal = "Python"},
    {"speechbrain_esc.yaml", "speechbrain", "batch_size", 24, 'D', 48, "amp-bf16", "-", 0,
     .optimizer = "torch.optim.AdamW"},
    {"speechbrain_dynamic.yaml", "speechbrain", "opts.size", 12, 'D', 12, "fp32", "-", 0,
     "takes its value from opts.size"},
    {"wenet_static.yaml", "wenet", "dataset_conf.batch_conf.batch_size", 20, 'D', 60, "fp32", "-",
     0, "options of train.py"},
    {"wenet_dynamic.yaml", "wenet", "dataset_conf.batch_conf.batch_size", 20, 'D', 40, "fp32", "-",
     0},
    {"openpcdet_net.yaml", "openpcdet", "OPTIMIZATION.BATCH_SIZE_PER_GPU", 6, 'D', 6, "amp-fp16",
     "SECONDNet", 0},
    {"monai_train.json", "monai", "per_gpu", 3, 'D', 3, "amp-fp16", "UNet", 0,
     "takes its value from per_gpu"},
    {"fairseq2_sft.yaml", "fairseq2", "dataset.batch_size", 4, 'D', 32, "amp-bf16", "llama3_2_1b",
     2048},
    {"mmf_child.yaml", "mmf", "training.batch_size", 480, 'G', 960, "amp-fp16", "-", 0,
     "batch 480 (mmf_defaults.yaml:2)"},
    {"lavis_caption.yaml", "lavis", "run.batch_size_train", 16, 'D', 32, "amp-fp16", "blip2", 364},
    {"trlx_ppo.yml", "trlx", "train.batch_size", 32, 'D', 32, "fp32", "some/gpt2-imdb", 128},
    {"maxtext_run.yml", "maxtext", "per_device_batch_size", 4, 'D', 4, "amp-bf16", "gemma-2b",
     2048},
    {"voice_svc.json", "voice", "train.batch_size", 14, 'D', 14, "amp-fp16", "-", 0},
    {"nequip_water.yaml", "lightning_tree", "data.train_dataloader.batch_size", 5, 'D', 5, "fp32",
     "nequip.model.NequIPGNNModel", 0, .hydra = true},
    {"basicsr_progressive.yml", "basicsr", "datasets.train.batch_size_per_gpu", 8, 'D', 8, "fp32",
     "Restormer", 384},
};
enum { ROWS = sizeof rows / sizeof *rows };

static int load(void *self, struct arena *a, struct str path, struct str *ret_text,
                struct fail *why) {
    (void)self;
    const char *source = getenv("BATCHFIT_SOURCE");
    struct str beside =
        str_format(a, "%s/tests/configs/%.*s", source ? source : ".", STR_ARG(path));
    if (os_read(a, beside.p, CONFIG_MAX_BYTES, ret_text, NULL, NULL) == 0) return 0;
    return fail_set(why, FAIL_INPUT, "there is no such file");
}

static void parse_fixture(struct arena *a, const char *file, struct config *ret) {
    const char *source = getenv("BATCHFIT_SOURCE");
    struct str path = str_format(a, "%s/tests/configs/%s", source ? source : ".", file), text;
    struct fail why = {0};
    if (os_read(a, path.p, CONFIG_MAX_BYTES, &text, NULL, &why)) fail_msg("%s", why.message);
    const struct datum_loader loader = {.read = load};
    if (config_parse_with(a, str_of(file), text, &loader, ret, &why)) fail_msg("%s", why.message);
}

static void same(const char *what, struct str is, const char *expected) {
    if (!expected) return;
    if (!str_equal(is, strcmp(expected, "-") ? str_of(expected) : STR(""))) {
        fail_msg("%s is \"%.*s\", expected \"%s\"", what, STR_ARG(is), expected);
    }
}

static void one_file(void **state) {
    const struct row *row = *state;
    ARENA_AUTO a = {0};
    struct config c;
    struct config_reading r;
    struct fail why = {0};
    const struct config_options options = {.section = str_of(row->section)};
    parse_fixture(&a, row->file, &c);
    if (config_read_roles(&a, &c, &options, &r, &why)) fail_msg("%s", why.message);
    const struct config_value *batch = &r.values[CONFIG_BATCH];
    same("dialect", r.dialect, row->dialect);
    same("batch path", batch->path, row->batch_path);
    assert_int_equal(batch->integer, row->batch);
    assert_int_equal(batch->unit, row->unit);
    same("precision", r.values[CONFIG_PRECISION].word, row->precision);
    same("model", r.values[CONFIG_MODEL].text, row->model);
    same("optimizer", r.values[CONFIG_OPTIMIZER].text, row->optimizer);
    const int64_t image = r.values[CONFIG_IMAGE_SIZE].integer;
    assert_int_equal(image ? image : r.values[CONFIG_SEQUENCE_LENGTH].integer, row->size);
    assert_int_equal(r.hydra, row->hydra);
    assert_int_equal(r.editable, row->refusal == NULL);
    if (row->refusal && str_find(r.refusal, str_of(row->refusal)) < 0)
        fail_msg("refusal is \"%.*s\"", STR_ARG(r.refusal));
    bool warned = row->warning == NULL;
    for (int i = 0; i < r.warnings.count; i++)
        warned |= !warned && str_find(r.warnings.items[i], str_of(row->warning)) >= 0;
    if (!warned) fail_msg("no warning says \"%s\"", row->warning);
    struct config_batches b = {0};
    const int status = config_batches(&a, &r, 1, &b, &why);
    assert_int_equal(status < 0, row->effective == 0);
    assert_int_equal(b.effective, row->effective);
}

static void read_text(struct arena *a, const char *text, const struct config_options *o,
                      struct config_reading *r) {
    struct config c;
    struct fail why = {0};
    if (config_parse(a, STR("c.yaml"), str_of(text), &c, &why)) fail_msg("%s", why.message);
    if (config_read_roles(a, &c, o, r, &why)) fail_msg("%s", why.message);
}

static void a_key_in_a_comment_or_text_decides_nothing(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct config_reading r;
    read_text(&a,
              "# per_device_train_batch_size: 4\nnote: |\n  SOLVER.IMS_PER_BATCH\n  imgsz: "
              "3\nname: \"batch_size: 3\"\n",
              NULL, &r);
    assert_str(r.dialect, "none");
    assert_false(r.editable);
    read_text(&a, "per_device_train_batch_size: {a: 1}\nx: 1\n", NULL, &r);
    assert_str(r.dialect, "none");
}

static void the_user_may_say_dialect_section_and_keys(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct config c;
    struct config_reading r;
    struct fail why = {0};
    struct config_options o = {.dialect = STR("ultralytics")};
    read_text(&a, "batch: 12\nsave_dir: runs/x\nimgsz: 320\n", &o, &r);
    assert_true(r.editable);
    o = (struct config_options){.keys[CONFIG_BATCH] = STR("stages[1].bs"),
                                .keys[CONFIG_MODEL] = STR("\"m.n\"")};
    read_text(&a, "stages:\n- bs: 4\n- bs: 8\nm.n: resnet\n", &o, &r);
    assert_int_equal(r.values[CONFIG_BATCH].integer, 8);
    assert_str(r.values[CONFIG_MODEL].text, "resnet");
    assert_true(r.editable);
    parse_fixture(&a, "seed_two_models.yaml", &c);
    assert_int_equal(config_read_roles(&a, &c, NULL, &r, &why), FAIL_INPUT);
    assert_non_null(strstr(why.message, "xlsum_mt5.training.per_device_train_batch_size (line 5)"));
    assert_non_null(strstr(why.hint, "--section xlsum_mt5 or --section eenzeenee"));
    o = (struct config_options){.section = STR("eenzene")};
    assert_int_equal(config_read_roles(&a, &c, &o, &r, &why), FAIL_USAGE);
    assert_non_null(strstr(why.hint, "eenzeenee"));
    o = (struct config_options){.dialect = STR("axolot")};
    assert_int_equal(config_read_roles(&a, &c, &o, &r, &why), FAIL_USAGE);
    assert_non_null(strstr(why.hint, "axolotl"));
    o = (struct config_options){.section = STR("eenzeenee"), .keys[CONFIG_LR] = STR("no.such")};
    assert_int_equal(config_read_roles(&a, &c, &o, &r, &why), FAIL_USAGE);
}

static void two_sections_without_a_difference_are_asked_about(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct config c;
    struct config_reading r;
    struct fail why = {0};
    const struct str text =
        STR("train:\n  batch_size: 8\n  lr: 1\ntraining:\n  batch_size: 4\n  epochs: 2\n");
    assert_int_equal(config_parse(&a, STR("c.yaml"), text, &c, &why), 0);
    assert_int_equal(config_read_roles(&a, &c, NULL, &r, &why), FAIL_INPUT);
    assert_non_null(strstr(why.message, "train.batch_size (line 2), training.batch_size (line 5)"));
    assert_non_null(strstr(why.hint, "--key batch=train.batch_size"));
}

static void a_lightning_batch_in_data_and_model_is_asked_about(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct config c;
    struct config_reading r;
    struct fail why = {0};
    const struct str text = STR("seed_everything: 1\ntrainer: {max_epochs: 1}\nmodel: {lr: 1, "
                                "batch_size: 8}\ndata: {batch_size: 8}\n");
    assert_int_equal(config_parse(&a, STR("c.yaml"), text, &c, &why), 0);
    assert_int_equal(config_read_roles(&a, &c, NULL, &r, &why), FAIL_INPUT);
    assert_non_null(strstr(why.message, "data.batch_size (line 4), model.batch_size (line 3)"));
}

static void a_named_precision_key_is_read(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct config_reading r;
    struct config_options o = {.keys[CONFIG_PRECISION] = STR("hw.half_type")};
    read_text(&a, "batch_size: 8\nhw: {half_type: bf16-mixed}\n", &o, &r);
    assert_str(r.values[CONFIG_PRECISION].word, "amp-bf16");
    o.keys[CONFIG_PRECISION] = STR("hw.use_half");
    read_text(&a, "batch_size: 8\nhw: {use_half: yes}\n", &o, &r);
    assert_str(r.values[CONFIG_PRECISION].word, "amp-fp16");
}

static void a_batch_size_deep_down_is_offered(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct config_reading r;
    read_text(&a, "a:\n  b:\n    stages:\n    - batch_size: 8\n", NULL, &r);
    assert_str(r.dialect, "none");
    assert_str(
        r.warnings.items[0],
        "line 4: is it a.b.stages[0].batch_size? then use --key batch='a.b.stages[0].batch_size'");
}

static void devices_may_be_a_list(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct config_reading r;
    struct config_batches b;
    read_text(&a, "seed_everything: 1\ntrainer: {devices: [0, 3]}\ndata: {batch_size: 8}\n", NULL,
              &r);
    assert_int_equal(config_batches(&a, &r, 0, &b, NULL), 0);
    assert_int_equal(b.ranks, 2);
    assert_int_equal(b.effective, 16);
    read_text(&a, "gpus: \"[0,1,4]\"\ndataloader_args: {batch_size: 8}\noptimizer: SGD\n", NULL,
              &r);
    assert_int_equal(config_batches(&a, &r, 0, &b, NULL), 0);
    assert_int_equal(b.ranks, 3);
}

static void what_looks_like_a_key_is_pointed_at(void **state) {
    (void)state;
    static const struct {
        const char *text, *warning;
    } cases[] = {
        {"lr: 1\n\xC2\xA0"
         "batch_size: 16\n",
         "no-break space (U+00A0) in line 2"},
        {"train: {batch_size:16}\n", "no space after the colon in line 1"},
        {"a:\n  - x\n  - batch_size：16\n", "full-width colon (U+FF1A) in line 3"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ARENA_AUTO a = {0};
        struct config_reading r;
        read_text(&a, cases[i].text, NULL, &r);
        assert_str(r.dialect, "none");
        assert_int_equal(r.warnings.count, 1);
        assert_non_null(strstr(str_z(&a, r.warnings.items[0]), cases[i].warning));
    }
}

static void every_dialect_is_listed_and_has_a_file(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct config_dialect_row *list;
    int count;
    assert_int_equal(config_dialects(&a, &list, &count, NULL), 0);
    assert_true(count >= 20);
    for (int i = 0; i < count; i++) {
        bool tested = false;
        for (int k = 0; k < ROWS; k++) tested |= str_is(list[i].id, rows[k].dialect);
        if (!tested)
            fail_msg("no file of tests/configs/ is in the dialect %.*s", STR_ARG(list[i].id));
        assert_true(list[i].title.len > 0 && list[i].batch_keys.len > 0);
    }
}

static void roles_have_names(void **state) {
    (void)state;
    for (int i = 0; i < CONFIG_ROLES; i++) {
        assert_int_equal(config_role_find(str_of(config_role_name((enum config_role)i))), i);
    }
    assert_int_equal(config_role_find(STR("colour")), CONFIG_ROLES);
}

// In "NAME [word word]" of a guard's cases.
static void words_behind_names_are_known(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct dialects all = {0};
    int count = 0;
    assert_int_equal(config_dialects_load(&a, &all, NULL), 0);
    for (ptrdiff_t i = 0; i < all.count; i++) {
        for (ptrdiff_t j = 0; j < all.items[i].guard_count; j++) {
            struct str rest = all.items[i].guards[j].cases, words;
            for (ptrdiff_t at; (at = str_find(rest, STR(" ["))) >= 0; count++) {
                rest = str_slice(rest, at + 2, rest.len);
                words = str_cut(&rest, ']');
                while (words.len > 0) assert_true(config_trait_find(str_cut(&words, ' ')) != 0);
            }
        }
    }
    assert_true(count > 0);
}

int main(void) {
    static const struct CMUnitTest others[] = {
        cmocka_unit_test(words_behind_names_are_known),
        cmocka_unit_test(a_key_in_a_comment_or_text_decides_nothing),
        cmocka_unit_test(the_user_may_say_dialect_section_and_keys),
        cmocka_unit_test(two_sections_without_a_difference_are_asked_about),
        cmocka_unit_test(a_lightning_batch_in_data_and_model_is_asked_about),
        cmocka_unit_test(a_named_precision_key_is_read),
        cmocka_unit_test(a_batch_size_deep_down_is_offered),
        cmocka_unit_test(devices_may_be_a_list),
        cmocka_unit_test(what_looks_like_a_key_is_pointed_at),
        cmocka_unit_test(every_dialect_is_listed_and_has_a_file),
        cmocka_unit_test(roles_have_names),
    };
    enum { OTHERS = sizeof others / sizeof *others };
    struct CMUnitTest tests[ROWS + OTHERS];
    for (int i = 0; i < ROWS; i++) {
        tests[i] =
            (struct CMUnitTest){rows[i].file, one_file, NULL, NULL, (void *)(uintptr_t)&rows[i]};
    }
    memcpy(tests + ROWS, others, sizeof others);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
