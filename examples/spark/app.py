# SPDX-License-Identifier: MIT OR Apache-2.0
"""app.py TASKS: a query of so many tasks, one in a hundred of which is slow (Straggle.java). Nothing in it knows of perftax."""

import sys

from pyspark.sql import SparkSession
from pyspark.sql.types import LongType

tasks = int(sys.argv[1])
spark = SparkSession.builder.getOrCreate()
spark.udf.registerJavaFunction("straggle", "Straggle", LongType())
spark.range(0, tasks, 1, tasks).selectExpr("straggle(id) as value").groupBy().sum("value").collect()
spark.stop()
