"""Where kaosmem comes into other programs: one file or package and one extra each."""
