# SPDX-License-Identifier: MIT OR Apache-2.0
"""app.py TASKS [--steady]: a query of so many tasks, one in a hundred of which is slow unless they are to be steady (Straggle.java). Nothing in it knows of perftax."""

import sys

from pyspark.sql import SparkSession
from pyspark.sql.types import LongType

tasks, straggles = int(sys.argv[1]), "--steady" not in sys.argv
spark = SparkSession.builder.getOrCreate()
spark.udf.registerJavaFunction("straggle", "Straggle", LongType())
spark.range(0, tasks, 1, tasks).selectExpr(f"straggle(id, {str(straggles).lower()}) as value").groupBy().sum("value").collect()
spark.stop()
