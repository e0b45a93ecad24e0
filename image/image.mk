# ISO and disk image assembly.
