"""The `fly_rocdl` dialect: atoms and memory of AMD GPUs. One file per family of atoms."""
