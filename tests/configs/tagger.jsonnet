local batch = 12;
{
  model: { type: "tagger" },
  data_loader: { batch_sampler: { type: "bucket", batch_size: batch } },
  trainer: { optimizer: { type: "adamw", lr: 2e-5 } },
}
