// SPDX-License-Identifier: Apache-2.0
// Settings that the forecast does not count are named, and only where they are on; files without a
// training are known as such.
#include "unit.h"

#include "base/os.h"
#include "records/config/config.h"

#include <stdlib.h>

struct row {
    const char *title, *name, *text, *guards; // "what (path: value), …"
};

static const struct row rows[] = {
    // LLaMA-Factory
    {"llamafactory lora", "c.yaml",
     "stage: sft\nfinetuning_type: lora\nlora_rank: 8\nquantization_bit: 4\ndeepspeed: ds_z3.json\n"
     "per_device_train_batch_size: 1\n",
     "LoRA (finetuning_type: lora), 4-bit weights (quantization_bit: 4), "
     "ZeRO (deepspeed: ds_z3.json)"},
    {"llamafactory full, a rank left over", "c.yaml",
     "stage: sft\nfinetuning_type: full\nlora_rank: 8\nlora_target: all\nquantization_bit: null\n"
     "deepspeed: null\nper_device_train_batch_size: 1\n",
     ""},
    {"llamafactory dpo", "c.yaml",
     "stage: dpo\nfinetuning_type: full\npref_loss: sigmoid\nper_device_train_batch_size: 1\n",
     "DPO (stage: dpo)"},
    {"llamafactory dpo without a reference", "c.yaml",
     "stage: dpo\nfinetuning_type: full\npref_loss: simpo\nper_device_train_batch_size: 1\n",
     "SimPO (pref_loss: simpo), DPO (stage: dpo)"},
    {"trl, what belongs to pairs", "c.yaml",
     "per_device_train_batch_size: 1\nuse_peft: false\nbeta: 0.1\nrpo_alpha: 0.5\n"
     "use_weighting: true\nprecompute_ref_log_probs: true\n",
     "preference training (beta: 0.1), a reference model's scores (precompute_ref_log_probs: "
     "true), RPO's second loss (rpo_alpha: 0.5), weighted pairs (use_weighting: true)"},
    {"llamafactory freeze", "c.yaml",
     "stage: kto\nfinetuning_type: freeze\nper_device_train_batch_size: 1\n",
     "frozen layers (finetuning_type: freeze), KTO (stage: kto)"},
    // Axolotl
    {"axolotl qlora", "c.yaml",
     "base_model: m\nmicro_batch_size: 2\nsequence_len: 512\nadapter: qlora\nload_in_4bit: true\n"
     "lora_r: 32\nrl: dpo\nfsdp:\n- full_shard\n- auto_wrap\nfsdp_config:\n"
     "  fsdp_offload_params: true\n",
     "QLoRA (adapter: qlora), DPO (rl: dpo), 4-bit weights (load_in_4bit: true), FSDP with "
     "offload (fsdp_config.fsdp_offload_params: true), parameter offload "
     "(fsdp_config.fsdp_offload_params: true)"},
    {"axolotl full, with the keys of lora", "c.yaml",
     "base_model: m\nmicro_batch_size: 2\nsequence_len: 512\nadapter:\nlora_r: 32\nlora_alpha: 16\n"
     "load_in_8bit: false\nload_in_4bit: no\ndeepspeed:\nfsdp:\nfsdp_config:\nrl:\n"
     "unfrozen_parameters:\n",
     ""},
    {"axolotl frozen", "c.yaml",
     "base_model: m\nmicro_batch_size: 2\nunfrozen_parameters:\n- ^lm_head.weight$\n"
     "gradient_checkpointing: offload\n",
     "frozen parameters (unfrozen_parameters), activation offload (gradient_checkpointing: "
     "offload)"},
    // Hugging Face, TRL, ms-swift
    // Speech, medicine, vision and language, reinforcement learning
    {"openrlhf, without a stage", "c.sh",
     "python -m openrlhf.cli.train_sft --train.micro_batch_size 2 --data.max_len 64\n",
     "ZeRO stage 2 by default (train)"},
    {"openrlhf, PPO", "c.sh",
     "python -m openrlhf.cli.train_ppo_ray --train.micro_batch_size 2 --ds.zero_stage 0 "
     "--data.max_len 64 --rollout.batch_size 8\n",
     "actor, reference and reward models, and an engine that generates (rollout)"},
    {"openrlhf, one sequence over several GPUs", "c.sh",
     "python -m openrlhf.cli.train_sft --train.micro_batch_size 2 --ds.zero_stage 0 "
     "--data.max_len 64 --ds.ring_attn_size 2\n",
     "context parallelism (ds.ring_attn_size: 2)"},
    {"ms-swift's own DeepSpeed files", "c.sh",
     "swift sft --model some/m --tuner_type full --per_device_train_batch_size 1 --deepspeed "
     "zero3_offload\n",
     "ZeRO stage 3 (deepspeed: zero3_offload), optimizer and parameter offload (deepspeed: "
     "zero3_offload)"},
    {"a switch that is said elsewhere, off", "c.yaml",
     "number_of_epochs: 3\nbatch_size: 4\nfreeze_part: False\n"
     "part: !new:some.Part\n    freeze: !ref <freeze_part>\n"
     "    freeze_feature_extractor: !ref <freeze_part>\n",
     ""},
    {"a switch that is said elsewhere, on", "c.yaml",
     "number_of_epochs: 3\nbatch_size: 4\nfreeze_part: True\n"
     "part: !new:some.Part\n    freeze_feature_extractor: !ref <freeze_part>\n",
     "frozen layers (part.freeze_feature_extractor: True)"},
    {"qwen's script, 4-bit weights", "c.sh",
     "python finetune.py --model_name_or_path some/m --per_device_train_batch_size 2 --use_lora "
     "--q_lora --model_max_length 64\n",
     "LoRA (use_lora: true), 4-bit weights (q_lora: true)"},
    {"a backbone whose stages are all frozen", "c.py",
     "default_scope = 'some'\nmodel = dict(type='X', backbone=dict(type='Y', frozen_stages=12))\n"
     "train_dataloader = dict(batch_size=2)\n",
     "frozen layers (model.backbone.frozen_stages: 12)"},
    {"its first stage alone is frozen", "c.py",
     "default_scope = 'some'\nmodel = dict(type='X', backbone=dict(type='Y', frozen_stages=1))\n"
     "train_dataloader = dict(batch_size=2)\n",
     ""},
    {"fairseq, a teacher", "c.yaml",
     "common: {fp16: true}\ndataset: {batch_size: 4}\noptimization: {max_update: 9}\n"
     "model: {_name: data2vec_multi}\n",
     "self-distillation with an averaged teacher (model._name: data2vec_multi)"},
    {"onetrainer, parts of other kinds", "c.json",
     "{\"training_method\": \"FINE_TUNE\", \"model_type\": \"Z\", \"base_model_name\": \"z\", "
     "\"transformer\": {\"weight_dtype\": \"INT_W8A8\", \"offload_fraction\": 0.5}, "
     "\"text_encoder\": {\"weight_dtype\": \"FLOAT_8\", \"offload_fraction\": 0.0}}",
     "8-bit weights and activations (transformer.weight_dtype: INT_W8A8), FP8 "
     "(text_encoder.weight_dtype: FLOAT_8), layer offload (transformer.offload_fraction: 0.5), "
     "text encoders and an autoencoder beside (model_type: Z)"},
    {"an encoder that follows the other", "c.yaml",
     "model: {arch: albef, queue_size: 64}\nrun: {runner: runner_base, task: t, "
     "batch_size_train: 4, max_epoch: 3, init_lr: 0.1}\n",
     "a momentum encoder beside (model.queue_size: 64)"},
    {"towers that LAVIS freezes", "c.yaml",
     "model: {arch: blip2, freeze_image: True, freeze_audio: True}\nrun: {runner: runner_base, "
     "task: t, batch_size_train: 4, max_epoch: 3, init_lr: 0.1}\n",
     "frozen layers (model.freeze_image: True)"},
    {"a frozen ViT under another option", "c.sh",
     "python finetune.py --model_name_or_path some/m --per_device_train_batch_size 2 --fix_vit "
     "True "
     "--model_max_length 64\n",
     "frozen layers (fix_vit: True)"},
    {"raft", "c.sh",
     "python raft_align.py --model_name_or_path some/m --per_device_train_batch_size 2 "
     "--raft_batch_size 64\n",
     "RAFT with a reward model (raft_batch_size: 64)"},
    {"openrlhf, batches of tokens", "c.sh",
     "python -m openrlhf.cli.train_ppo_ray --train.batch_size 8 --ds.zero_stage 3 "
     "--train.dynamic_batch_enable\n",
     "ZeRO stage 3 (ds.zero_stage: 3), batches of so many tokens, however many samples that is "
     "(train.dynamic_batch_enable: true)"},
    {"a frozen part by another name", "c.yaml",
     "DATA: {BATCH_SIZE: 8, IMG_SIZE: 224}\nMODEL: {TYPE: vit, HEAD: {FREEZE_VIT: True}}\n",
     "frozen layers (MODEL.HEAD.FREEZE_VIT: True)"},
    {"simpletuner, nothing frozen", "c.json",
     "{\"model_family\": \"sdxl\", \"model_type\": \"full\", \"train_batch_size\": 2, "
     "\"base_model_precision\": \"no_change\", \"controlnet\": false}",
     ""},
    {"simpletuner", "c.json",
     "{\"model_family\": \"sdxl\", \"model_type\": \"lora\", \"train_batch_size\": 2, "
     "\"base_model_precision\": \"int8-quanto\", \"controlnet\": true}",
     "LoRA (model_type: lora), quantised weights (base_model_precision: int8-quanto), a ControlNet "
     "beside a frozen model (controlnet: true)"},
    {"onetrainer", "c.json",
     "{\"training_method\": \"EMBEDDING\", \"model_type\": \"X\", \"base_model_name\": \"m\"}",
     "textual inversion (training_method: EMBEDDING), text encoders and an autoencoder beside "
     "(model_type: X)"},
    {"lingua", "c.yaml",
     "data: {seq_len: 64, root_dir: d}\nmodel: {dim: 8}\ndistributed: {fsdp_type: full_shard}\n",
     "FSDP (distributed.fsdp_type: full_shard)"},
    {"lingua, on one GPU", "c.yaml",
     "data: {seq_len: 64, root_dir: d}\nmodel: {dim: 8}\ndistributed: {fsdp_type: no_shard}\n", ""},
    {"solo-learn, on frozen layers", "c.yaml",
     "pretrain_method: byol\nbackbone: {name: resnet18}\noptimizer: {batch_size: 4}\n",
     "frozen layers (pretrain_method: byol)"},
    {"LLaMA-Factory v1", "c.yaml",
     "model: m\ntrain_dataset: d\nmicro_batch_size: 1\npeft_config: {name: freeze}\n"
     "dist_config: {name: deepspeed}\nquant_config: {name: bnb, quantization_bit: 4}\n",
     "frozen layers (peft_config.name: freeze), 4-bit weights (quant_config.quantization_bit: 4), "
     "ZeRO (dist_config.name: deepspeed)"},
    {"four bits of optimizer state", "c.yaml",
     "per_device_train_batch_size: 2\noptim: adamw_torch_4bit\n",
     "4-bit optimizer states (optim: adamw_torch_4bit)"},
    {"speechbrain, batches by length", "c.yaml",
     "batch_size: 8\ndynamic_batching: True\nfreeze_wav2vec: True\n"
     "net: !new:speechbrain.nnet.linear.Linear {n_neurons: 4}\n",
     "batches of a length, however many samples that is (dynamic_batching: True), "
     "frozen layers (freeze_wav2vec: True)"},
    {"speechbrain, neither", "c.yaml",
     "batch_size: 8\ndynamic_batching: False\nfreeze_wav2vec: False\n"
     "net: !new:speechbrain.nnet.linear.Linear {n_neurons: 4}\n",
     ""},
    {"wenet", "c.yaml", "dataset_conf: {batch_conf: {batch_type: dynamic, batch_size: 8}}\n",
     "batches of max_frames_in_batch frames, however many samples that is "
     "(dataset_conf.batch_conf.batch_type: dynamic)"},
    {"monai", "c.json",
     "{\"network\": {\"_target_\": \"UNet\"}, \"train\": {\"crop\": {\"num_samples\": 4}, "
     "\"trainer\": {}, \"dataloader\": {\"batch_size\": 2}}}",
     "4 patches of each sample (train.crop.num_samples: 4)"},
    {"monai by reference, with a discriminator", "c.json",
     "{\"n\": 26, \"network\": {\"_target_\": \"UNet\"}, \"discriminator\": {\"x\": 1}, \"train\": "
     "{\"crop\": {\"num_samples\": \"@n\"}, \"trainer\": {}, \"dataloader\": {\"batch_size\": 2}}}",
     "26 patches of each sample (train.crop.num_samples: 26), a discriminator beside "
     "(discriminator)"},
    {"fairseq2 by tokens", "c.yaml",
     "model: {name: m}\ndataset: {max_num_tokens: 8192}\nregime: {num_steps: 9}\n"
     "trainer: {data_parallelism: fsdp}\n",
     "batches of 8192 tokens at most (dataset.max_num_tokens: 8192), FSDP "
     "(trainer.data_parallelism: fsdp)"},
    {"fairseq2 by samples", "c.yaml",
     "model: {name: m}\ndataset: {max_num_tokens: 8192, batch_size: 4}\nregime: {num_steps: 9}\n",
     ""},
    {"trlx", "c.yaml",
     "train: {seq_length: 64, batch_size: 16, minibatch_size: 4}\nmethod: {name: ppoconfig}\n"
     "model: {model_path: m, num_layers_unfrozen: 2}\n",
     "PPO (method.name: ppoconfig), frozen layers (model.num_layers_unfrozen: 2), batches that are "
     "split into minibatches of 4 (train.minibatch_size: 4)"},
    {"trlx, all layers by their examples", "c.yaml",
     "train: {seq_length: 64, batch_size: 16}\nmethod: {name: sftconfig}\n"
     "model: {model_path: m, num_layers_unfrozen: -1}\n",
     ""},
    {"maxtext", "c.yaml", "model_name: m\nper_device_batch_size: 4\nremat_policy: full\n",
     "JAX, not PyTorch (model_name: m)"},
    {"a voice model", "c.json",
     "{\"train\": {\"batch_size\": 4, \"c_mel\": 45}, \"data\": {\"sampling_rate\": 48000}}",
     "a discriminator beside (train.c_mel: 45)"},
    {"sizes that grow", "c.yml",
     "datasets: {train: {batch_size_per_gpu: 8, mini_batch_sizes: [8, 1]}}\n"
     "network_g: {type: Restormer}\n",
     "batches and sizes that change during the training (datasets.train.mini_batch_sizes)"},
    {"espnet", "c.yaml",
     "batch_type: folded\nbatch_size: 8\naccum_grad: 1\nuse_adapter: true\nfreeze_param: "
     "[encoder]\nuse_deepspeed: true\n",
     "LoRA (use_adapter: true), frozen layers (freeze_param), ZeRO (use_deepspeed: true)"},
    {"a record of TrainingArguments", "c.json",
     "{\"per_device_train_batch_size\": 8, \"deepspeed\": null, \"fsdp\": \"\", \"fsdp_config\": "
     "{\"min_num_params\": 0, \"xla\": false, \"xla_fsdp_v2\": false}, \"optim\": \"adamw_torch\", "
     "\"load_in_8bit\": false, \"local_rank\": -1, \"ddp_backend\": null}",
     ""},
    {"huggingface fsdp", "c.yaml",
     "train:\n  per_device_train_batch_size: 8\n  fsdp: full_shard auto_wrap\n",
     "FSDP (train.fsdp: full_shard auto_wrap)"},
    {"trl qlora", "c.yaml",
     "per_device_train_batch_size: 4\nuse_peft: true\nlora_r: 16\nload_in_4bit: true\n"
     "bnb_4bit_quant_type: nf4\n",
     "PEFT adapter (use_peft: true), 4-bit weights (load_in_4bit: true)"},
    {"trl with the switch off", "c.yaml",
     "per_device_train_batch_size: 4\nuse_peft: false\nlora_r: 16\nlora_alpha: 16\n", ""},
    {"axolotl process reward model", "c.yaml",
     "base_model: acme/m\nmicro_batch_size: 2\nsequence_len: 512\nprocess_reward_model: true\n",
     "process reward modelling (process_reward_model: true)"},
    {"trl grpo", "c.yaml",
     "per_device_train_batch_size: 4\nattn_implementation: sdpa\nnum_generations: 8\n",
     "GRPO (num_generations: 8)"},
    {"swift", "c.yaml",
     "model: Qwen/Qwen2.5-7B\ntuner_type: lora\nrlhf_type: dpo\nquant_bits: 4\ndeepspeed: zero2\n"
     "per_device_train_batch_size: 4\n",
     "4-bit weights (nf4) (quant_bits: 4), LoRA (tuner_type: lora), DPO (rlhf_type: dpo), "
     "ZeRO stage 2 (deepspeed: zero2)"},
    // Others with a dialect
    {"deepspeed json", "c.json",
     "{\"train_micro_batch_size_per_gpu\": 4, \"zero_optimization\": {\"stage\": 3, "
     "\"offload_optimizer\": {\"device\": \"cpu\", \"pin_memory\": true}, \"offload_param\": "
     "{\"device\": \"none\", \"pin_memory\": true}}}",
     "ZeRO stage 3 (zero_optimization.stage: 3), optimizer offload "
     "(zero_optimization.offload_optimizer.device: cpu)"},
    {"deepspeed json without ZeRO", "c.json",
     "{\"train_micro_batch_size_per_gpu\": 4, \"zero_optimization\": {\"stage\": 0, "
     "\"overlap_comm\": true}}",
     ""},
    {"accelerate ddp", "c.yaml",
     "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nnum_processes: 4\n", ""},
    {"accelerate fsdp", "c.yaml",
     "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nfsdp_config:\n"
     "  fsdp_version: 2\n",
     "FSDP2 (fsdp_config.fsdp_version: 2)"},
    {"accelerate fsdp1", "c.yaml",
     "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nfsdp_config:\n"
     "  fsdp_reshard_after_forward: false\n",
     "FSDP that keeps what it gathers (fsdp_config.fsdp_reshard_after_forward: false)"},
    {"torchtune qlora", "c.yaml",
     "model:\n  _component_: torchtune.models.llama3_2.qlora_llama3_2_1b\nbatch_size: 2\n"
     "loss:\n  _component_: torchtune.rlhf.loss.DPOLoss\n",
     "QLoRA (model._component_: torchtune.models.llama3_2.qlora_llama3_2_1b), 4-bit weights "
     "(torchao) (model._component_: torchtune.models.llama3_2.qlora_llama3_2_1b), DPO "
     "(loss._component_: torchtune.rlhf.loss.DPOLoss)"},
    {"torchtune full", "c.yaml",
     "model:\n  _component_: torchtune.models.llama3_2.llama3_2_1b\nbatch_size: 2\n"
     "loss:\n  _component_: torchtune.modules.loss.CEWithChunkedOutputLoss\n"
     "enable_activation_offloading: False\n",
     ""},
    {"litgpt qlora", "c.yaml",
     "checkpoint_dir: x\nquantize: bnb.nf4\nlora_r: 32\ndevices: 2\ntrain:\n  global_batch_size: "
     "8\n  micro_batch_size: 2\n",
     "LoRA (lora_r: 32), 4-bit weights (quantize: bnb.nf4), FSDP (devices: 2)"},
    {"litgpt full", "c.yaml",
     "checkpoint_dir: x\nquantize:\ndevices: 1\ntrain:\n  global_batch_size: 8\n  "
     "micro_batch_size: 2\n",
     ""},
    {"llm-foundry", "c.yaml",
     "device_train_microbatch_size: 4\nglobal_train_batch_size: 8\nmodel:\n  peft_config:\n    r: "
     "16\nfsdp_config:\n  sharding_strategy: FULL_SHARD\n",
     "PEFT adapter (model.peft_config), FSDP (fsdp_config)"},
    {"nemo", "c.yaml",
     "trainer:\n  devices: 8\nmodel:\n  global_batch_size: 8\n  micro_batch_size: 1\n  "
     "tensor_model_parallel_size: 4\n  pipeline_model_parallel_size: 1\n  peft:\n    peft_scheme: "
     "null\n    lora_tuning:\n      adapter_dim: 32\n  optim:\n    name: distributed_fused_adam\n",
     "sharded optimizer (model.optim.name: distributed_fused_adam), tensor parallelism "
     "(model.tensor_model_parallel_size: 4)"},
    {"lightning", "c.yaml",
     "seed_everything: 1\ntrainer:\n  strategy:\n    class_path: "
     "lightning.pytorch.strategies.FSDPStrategy\ndata:\n  batch_size: 8\n",
     "FSDP (trainer.strategy.class_path: lightning.pytorch.strategies.FSDPStrategy)"},
    {"lightning ddp", "c.yaml",
     "seed_everything: 1\ntrainer:\n  strategy: ddp\n  devices: 4\ndata:\n  batch_size: 8\n", ""},
    {"gpt-neox", "c.yml",
     "train_micro_batch_size_per_gpu: 4\npipe-parallel-size: 1\nmodel-parallel-size: 2\n",
     "tensor parallelism (model-parallel-size: 2)"},
    {"gpt-neox, a stage of preferences", "c.yml",
     "num_layers: 2\nhidden_size: 8\nseq_length: 16\ntrain_micro_batch_size_per_gpu: 4\n"
     "train_impl: dpo\nmodel_parallel_size: 1\n",
     "DPO (train_impl: dpo)"},
    {"torchtune's others", "c.yaml",
     "model:\n  _component_: torchtune.models.llama3_2.llama3_2_1b\nbatch_size: 2\n"
     "optimizer:\n  _component_: torch.optim.SGD\noptimizer_in_bwd: True\nteacher_model:\n"
     "  _component_: torchtune.models.llama3_1.llama3_1_8b\nfsdp_cpu_offload: True\n",
     "knowledge distillation (teacher_model), CPU offload (fsdp_cpu_offload: True), optimizer in "
     "the backward pass (optimizer_in_bwd: True)"},
    {"axolotl's plugins and kernels", "c.yaml",
     "base_model: m\nmicro_batch_size: 2\nplugins:\n- axolotl.integrations.liger.LigerPlugin\n"
     "- axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin\nattn_implementation: eager\n"
     "qat:\n  weight_dtype: int4\n",
     "quantisation-aware training (qat), Liger kernels (plugins), cut cross entropy (plugins), "
     "eager attention (attn_implementation: eager)"},
    {"some of liger's kernels", "c.yaml",
     "base_model: m\nmicro_batch_size: 2\nliger_rope: true\nliger_rms_norm: true\n"
     "liger_glu_activation: false\nliger_layer_norm: true\n",
     "Liger's RMSNorm (liger_rms_norm: true), Liger's rotary embedding (liger_rope: true), other "
     "kernels of Liger's (liger_layer_norm: true)"},
    {"kernels that are off", "c.yaml",
     "base_model: m\nmicro_batch_size: 2\nplugins: []\nliger_rope: false\nqat:\n"
     "cut_cross_entropy: false\nattn_implementation: flash_attention_2\n",
     ""},
    {"a switch of another adapter decides nothing", "c.yaml",
     "training:\n  batch_size: 2\n  learning_rate: 2e-4\n  gradient_checkpointing: unsloth\n"
     "lora:\n  lora_r: 16\n  use_dora: false\n",
     "LoRA (lora), activation offload (training.gradient_checkpointing: unsloth)"},
    {"llamafactory's optimizers", "c.yaml",
     "stage: sft\nfinetuning_type: full\nuse_galore: true\nfreeze_vision_tower: true\n"
     "enable_liger_kernel: true\nper_device_train_batch_size: 1\n",
     "Liger kernels (enable_liger_kernel: true), frozen layers (freeze_vision_tower: true), GaLore "
     "(use_galore: true)"},
    // The dialect's rows of a kind and those of every file; of a key that the former name the
    // latter say nothing, and nothing of a kind that is one choice.
    {"llamafactory's record of its arguments", "c.yaml",
     "stage: sft\nfinetuning_type: lora\nfreeze_trainable_layers: 2\nfreeze_layers: 2\n"
     "lora_rank: 8\npeft_type: ia3\nper_device_train_batch_size: 1\n",
     "LoRA (finetuning_type: lora), frozen layers (freeze_layers: 2)"},
    {"swift's pairs", "c.yaml",
     "model: Qwen/Qwen2.5-7B\ntuner_type: full\nrlhf_type: dpo\nuse_weighting: true\nbeta: 0.1\n"
     "per_device_train_batch_size: 4\n",
     "DPO (rlhf_type: dpo), weighted pairs (use_weighting: true)"},
    {"nanotron's parallelism", "c.yaml",
     "parallelism: {dp: 2, tp: 2, pp: 1, expert_parallel_size: 2, tensor_parallel_size: 4}\n"
     "tokens: {micro_batch_size: 2, sequence_length: 64}\n",
     "tensor parallelism (parallelism.tp: 2), context or expert parallelism "
     "(parallelism.expert_parallel_size: 2)"},
    {"trl by its loss", "c.yaml",
     "per_device_train_batch_size: 4\nattn_implementation: sdpa\nloss_type: apo_zero\n",
     "DPO (loss_type: apo_zero)"},
    {"compression", "c.json",
     "{\"train_micro_batch_size_per_gpu\": 4, \"compression_training\": {\"weight_quantization\": "
     "{\"shared_parameters\": {\"enabled\": true}}}}",
     "quantisation-aware training "
     "(compression_training.weight_quantization.shared_parameters.enabled: true)"},
    {"an encoder is not the model", "c.yaml",
     "batch_size: 4\nlr: 0.1\narchitecture: UperNet\nencoder_name: resnet50\n",
     "a decoder around the encoder resnet50 (encoder_name: resnet50)"},
    {"ai-toolkit", "c.yaml",
     "job: extension\nconfig:\n  process:\n  - network: {type: lora}\n    train: {batch_size: 1}\n"
     "    model: {quantize: true, low_vram: true}\n",
     "lora adapter (config.process[0].network.type: lora), quantised weights "
     "(config.process[0].model.quantize: true), weights kept on the CPU "
     "(config.process[0].model.low_vram: true)"},
    {"dinov2 shards and has a teacher", "c.yaml",
     "train: {batch_size_per_gpu: 8}\nstudent: {arch: vit_large}\n",
     "FSDP (student), self-distillation with a teacher and several crops an image (student)"},
    // A team's own
    {"any depth", "c.yaml",
     "train:\n  batch_size: 4\n  lr: 1.0e-4\nmodel:\n  name: x\n  loading:\n    "
     "quantization_config:\n      load_in_8bit: true\n  lora:\n    r: 8\n",
     "LoRA (model.lora), 8-bit weights (model.loading.quantization_config.load_in_8bit: true)"},
    {"a map with its switch off", "c.yaml",
     "train:\n  batch_size: 4\n  lr: 1.0e-4\nlora:\n  enabled: false\n  r: 8\npeft: {}\n"
     "quantization:\n  enable: no\n  bits: 4\nfsdp: []\ndeepspeed: 'None'\nzero_stage: 0\n",
     ""},
    {"what belongs to inference alone", "c.yaml",
     "train:\n  batch_size: 4\n  lr: 1.0e-4\ninference:\n  load_in_8bit: true\n", ""},
    {"weights that are quantised by their name", "c.yaml",
     "per_device_train_batch_size: 1\nmodel_name_or_path: unsloth/Llama-3.2-1B-bnb-4bit\n",
     "4-bit weights (model_name_or_path: unsloth/Llama-3.2-1B-bnb-4bit)"},
    {"a long value, cut where a letter begins", "c.yaml",
     "batch_size: 4\nlr: 0.1\nx_______________________________________________: 1\ndeepspeed: "
     "가나다라마바사아자차카타파하가나다라마바사아자차카타파하\n",
     "ZeRO (deepspeed: 가나다라마바사아자차카타파하가나다라마바)"},
    {"an alias that contains itself", "c.yaml",
     "batch_size: 4\nlr: 0.1\nfsdp: &f\n- &g [0]\n- [*g, *g]\n", ""},
    // Not parsed
    {"torchtitan", "c.toml",
     "[training]\nlocal_batch_size = 8\n[parallelism]\ndata_parallel_shard_degree = 4 # of 8\n"
     "tensor_parallel_degree = 1\n# context_parallel_degree = 2\npipeline_parallel_degree = 2\n",
     "torchtitan's FSDP2 (parallelism.data_parallel_shard_degree: 4), pipeline parallelism "
     "(parallelism.pipeline_parallel_degree: 2)"},
    {"torchtitan over all GPUs, if there are several", "c.toml",
     "[training]\nlocal_batch_size = 8\n[parallelism]\ndata_parallel_shard_degree = -1\n"
     "tensor_parallel_degree = 1\n",
     "torchtitan's FSDP2 (parallelism.data_parallel_shard_degree: -1)"},
    {"torchtitan, and no word of it", "c.toml", "[training]\nlocal_batch_size = 8\n",
     "torchtitan's FSDP2 (training)"},
    {"torchtitan, not sharded", "c.toml",
     "[training]\nlocal_batch_size = 8\n[parallelism]\ndata_parallel_shard_degree = 1\n", ""},
    {"a command", "c.sh",
     "torchrun train.py --per_device_train_batch_size 2 \\\n  --deepspeed ds_z2.json \\\n  "
     "--use-peft --lora_r 8 \\\n  --load_in_4bit=True \\\n  --fsdp ''\n# --cpu_offload\n",
     "PEFT adapter (use_peft: true), 4-bit weights (load_in_4bit: True), "
     "ZeRO (deepspeed: ds_z2.json)"},
    {"python", "c.py",
     "lora_r = 8  # rank\nquantization_config=dict(\n    load_in_4bit=False)\nif fsdp == 'x':\n  a "
     "= 1\n",
     "LoRA (lora_r: 8)"},
};
enum { ROWS = sizeof rows / sizeof *rows };

static void read_text(struct arena *a, const char *name, const char *text,
                      const struct config_options *o, struct config_reading *r) {
    struct config c;
    struct fail why = {0};
    if (config_parse(a, str_of(name), str_of(text), &c, &why)) fail_msg("%s", why.message);
    if (config_read_roles(a, &c, o, r, &why)) fail_msg("%s", why.message);
}

static struct str guards_text(struct arena *a, const struct config_reading *r) {
    struct buf text = buf_new(a);
    for (int i = 0; i < r->guard_count; i++) {
        const struct config_guard *g = &r->guards[i];
        buf_format(&text, "%s%.*s (%.*s%s%.*s)", i ? ", " : "", STR_ARG(g->what), STR_ARG(g->path),
                   g->value.len ? ": " : "", STR_ARG(g->value));
        assert_true(g->line > 0 && g->kind.len > 0);
    }
    return buf_str(&text);
}

static void one_text(void **state) {
    const struct row *row = *state;
    ARENA_AUTO a = {0};
    struct config_reading r;
    read_text(&a, row->name, row->text, NULL, &r);
    struct str is = guards_text(&a, &r);
    if (!str_is(is, row->guards)) fail_msg("is \"%.*s\"", STR_ARG(is));
}

// What a real file must be said to have, and no others of tests/configs/.
static void files(void **state) {
    (void)state;
    static const struct {
        const char *file, *guards;
    } cases[] = {
        {"axolotl_lora.yml", "8-bit weights (load_in_8bit: true)"},
        {"torchtune_lora.yaml", "LoRA (model._component_: "
                                "torchtune.models.llama3_2.lora_llama3_2_1b)"},
        {"accelerate_z2.yaml", "ZeRO stage 2 (deepspeed_config.zero_stage: 2)"},
        {"seed_sections.yaml", "optimizer offload (memory.offload_optimizer: true)"},
        {"tune_run.sh", "LoRA (launcher.script: lora_finetune_distributed)"},
        {"dino_vits.sh", "self-distillation with a teacher (launcher.script: main_dino.py)"},
        {"diffusers_lora.sh", "8-bit optimizer states (use_8bit_adam: true), "
                              "LoRA (launcher.script: train_text_to_image_lora.py)"},
        {"open_clip_b16.sh", "a text tower beside, trained with a contrastive loss (model: "
                             "ViT-B-16)"},
        {"openrlhf_sft.sh", "ZeRO stage 2 (zero_stage: 2)"},
        {"megatron_gpt.sh", "fp32 gradients and weights beside those in 16 bits (bf16: true), "
                            "tensor parallelism (tensor_model_parallel_size: 2)"},
        {"paddleclas_net.yaml", "PaddlePaddle, not PyTorch (Arch)"},
        {"rtdetr_named.yml", "images of several sizes, the largest above the usual one "
                             "(RTDETR.multi_scale)"},
        {"litgpt_lora.yaml", ""},
        {"hf_args.json", ""},
        {"espnet_folded.yaml", ""},
        {"espnet_numel.yaml",
         "batches of batch_bins numbers, however many samples that is (batch_type: numel)"},
        {"hf_flat.yaml", ""},
        {"ultralytics_default.yaml", ""},
        {"timm_args.yaml", ""},
        {"detectron2_base.yaml", ""},
        {"lightning_cli.yaml", ""},
        {"nemo_gpt.yaml", ""},
        {"llmfoundry_mpt.yaml", ""},
        {"mmengine_bs64.py", ""},
        {"train.sh", ""},
    };
    const char *source = getenv("BATCHFIT_SOURCE");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ARENA_AUTO a = {0};
        struct config_reading r;
        struct str path =
                       str_format(&a, "%s/tests/configs/%s", source ? source : ".", cases[i].file),
                   text;
        struct fail why = {0};
        if (os_read(&a, path.p, CONFIG_MAX_BYTES, &text, NULL, &why)) fail_msg("%s", why.message);
        read_text(&a, cases[i].file, str_z(&a, text), NULL, &r);
        struct str is = guards_text(&a, &r);
        if (!str_is(is, cases[i].guards)) fail_msg("%s: \"%.*s\"", cases[i].file, STR_ARG(is));
        assert_int_equal(r.inference.len, 0);
    }
}

static void a_section_has_its_own_and_those_of_the_top(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct config_reading r;
    const struct config_options o = {.section = STR("b")};
    read_text(&a, "c.yaml",
              "deepspeed: z.json\na:\n  per_device_train_batch_size: 1\n  use_peft: true\nb:\n"
              "  per_device_train_batch_size: 2\n",
              &o, &r);
    assert_str(guards_text(&a, &r), "ZeRO (deepspeed: z.json)");
}

static void a_question_of_inference_sees_the_section_for_it(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct config_reading r;
    const struct config_options o = {.inference = true};
    read_text(&a, "c.yaml", "inference:\n  batch_size: 4\n  load_in_8bit: true\n", &o, &r);
    assert_str(guards_text(&a, &r), "8-bit weights (inference.load_in_8bit: true)");
}

static void a_file_without_training_is_known(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool is_inference;
    } cases[] = {
        {"model: {name: resnet50}\ninference: {batch_size: 8}\n", true},
        {"network: {a: b}\ndataloader: {batch_size: 9}\nevaluator: {amp: true}\n", true}, // MONAI
        {"network: {a: b}\ntrain: {trainer: {a: 1}}\nvalidate: {evaluator: {amp: true}}\n", false},
        {"run: {batch_size_train: 4, evaluate: true}\n", true},
        {"model_name_or_path: a/b\ntemplate: llama3\ninfer_backend: vllm\n", true},
        {"model: {target: ldm.models.LatentDiffusion, base_learning_rate: 1.0e-04, params: {}}\n",
         true},
        // The seeds' team's: settings of the training that inference needs, too.
        {"train: {img_size: 384, batch_size: 32}\ninference: {tta: true, tta_type: essential}\n"
         "ensemble: {fold_results_path: a.yaml, use_tta: true}\n",
         true},
        {"model_name: resnet50\nckpt: best.pth\nbatch_size: 64\nimg_size: 224\n", true},
        {"models: {a: {ckpt_path: a.pt}, b: {ckpt_path: b.pt}}\nbatch_size: 8\n", true},
        {"model_name_or_path: m\nstage: sft\nfinetuning_type: lora\ndo_predict: true\n"
         "per_device_eval_batch_size: 4\n",
         true},
        {"model_name_or_path: m\ndo_predict: True\ndo_train: False\n"
         "per_device_train_batch_size: 4\nlearning_rate: 1.0e-4\n",
         true},
        {"model_name_or_path: m\ndo_eval: true\nper_device_eval_batch_size: 4\n", true},
        {"imgsz: 640\nbatch: 16\nmode: val\nmodel: yolov8n.pt\nlr0: 0.01\n", true},
        // Trainings
        {"imgsz: 640\nbatch: 16\nmode: train\nmodel: yolov8n.pt\n", false},
        {"model_name_or_path: m\ndo_train: true\ndo_predict: true\n"
         "per_device_train_batch_size: 4\n",
         false},
        {"model_name_or_path: m\ndo_eval: true\nper_device_train_batch_size: 4\n"
         "learning_rate: 2.0e-5\n",
         false},
        {"train: {batch_size: 32, lr: 0.1}\ninference: {batch_size: 8}\n", false},
        {"train: {batch_size: 32}\nhyper: {num_epochs: 3}\ninference: {batch_size: 8}\n", false},
        {"train: {batch_size: 32}\noptimizer: {type: sgd}\nckpt_path: last.ckpt\n", false},
        {"models: {fold_0: {name: a}}\ntrain: {batch_size: 8, max_batch_size: 64, ema: true, "
         "use_mixup: true}\ninference: {tta: false}\n",
         false},
        {"defaults: [data: x, trainer: y]\nckpt_path: last.ckpt\nbatch_size: 4\n", false},
        {"batch_size: 4\nckpt_path: null\n", false},
        {"batch_size: 4\nmodel: resnet50\n", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ARENA_AUTO a = {0};
        struct config_reading r;
        read_text(&a, "c.yaml", cases[i].text, NULL, &r);
        if ((r.inference.len > 0) != cases[i].is_inference) fail_msg("case %zu", i);
    }
    ARENA_AUTO a = {0};
    struct config_reading r;
    const struct config_options o = {.dialect = STR("flat")};
    read_text(&a, "c.yaml", cases[2].text, &o, &r);
    assert_int_equal(r.inference.len, 0);
}

static void the_rows_for_every_file_are_no_dialect(void **state) {
    (void)state;
    ARENA_AUTO a = {0};
    struct config c;
    struct config_reading r;
    struct fail why = {0};
    const struct config_options o = {.dialect = STR("*")};
    assert_int_equal(config_parse(&a, STR("c.yaml"), STR("batch_size: 1\n"), &c, &why), 0);
    assert_int_equal(config_read_roles(&a, &c, &o, &r, &why), FAIL_USAGE);
}

int main(void) {
    static const struct CMUnitTest others[] = {
        cmocka_unit_test(files),
        cmocka_unit_test(a_section_has_its_own_and_those_of_the_top),
        cmocka_unit_test(a_question_of_inference_sees_the_section_for_it),
        cmocka_unit_test(a_file_without_training_is_known),
        cmocka_unit_test(the_rows_for_every_file_are_no_dialect),
    };
    enum { OTHERS = sizeof others / sizeof *others };
    struct CMUnitTest tests[ROWS + OTHERS];
    for (int i = 0; i < ROWS; i++) {
        tests[i] =
            (struct CMUnitTest){rows[i].title, one_text, NULL, NULL, (void *)(uintptr_t)&rows[i]};
    }
    memcpy(tests + ROWS, others, sizeof others);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
