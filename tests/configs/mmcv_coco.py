dataset_type_name = 'CocoDataset'
data = dict(samples_per_gpu=2, workers_per_gpu=2)
