#!/bin/bash
#SBATCH --job-name=cifar
#SBATCH --gpus=1
#SBATCH --time=04:00:00
EPOCHS=${EPOCHS:-30}
python train.py --arch resnet50 --epochs "$EPOCHS" --batch-size 512 --amp --save /ckpt/cifar
