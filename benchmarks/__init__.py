"""What kaosmem costs and how well it packs, beside references in the same run."""
