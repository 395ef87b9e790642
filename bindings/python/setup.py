# SPDX-License-Identifier: MIT OR Apache-2.0
from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "perftax_tag._tag",
            sources=["src/perftax_tag/_tag.c"],
            include_dirs=["src/perftax_tag"],
            depends=["src/perftax_tag/perftax_tag.h"],
            # A thread that ends calls it, whoever has unloaded it.
            extra_link_args=["-Wl,-z,nodelete"],
            extra_compile_args=["-O2", "-Wall", "-Wextra", "-Wno-missing-field-initializers"],
        )
    ]
)
