// SPDX-License-Identifier: MIT OR Apache-2.0
package perftax.spark;

import java.util.Map;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskFailedReason;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.api.plugin.SparkPlugin;
import perftax.tag.Marks;

/**
 * Has {@code perftax trace record} know what Spark works on: each attempt of a task is a message, part of its stage's, which is part of its job's.
 *
 * <pre>spark-submit --jars tag.jar,tag-spark.jar --conf spark.plugins=perftax.spark.MarksPlugin …</pre>
 *
 * <p>Spark 3.1 and later. Where nobody listens a task takes four looks at a variable more.
 */
public final class MarksPlugin implements SparkPlugin {
    @Override
    public DriverPlugin driverPlugin() {
        return new Driver();
    }

    @Override
    public ExecutorPlugin executorPlugin() {
        return new Executor();
    }

    private static final class Driver implements DriverPlugin {
        @Override
        public Map<String, String> init(SparkContext context, PluginContext plugin) {
            context.addSparkListener(new StageListener());
            return Map.of();
        }
    }

    /** Both calls come in the task's own thread. */
    private static final class Executor implements ExecutorPlugin {
        private final ThreadLocal<Long> task = new ThreadLocal<>();

        @Override
        public void onTaskStart() {
            if (!Marks.isListened()) {
                return;
            }
            TaskContext context = TaskContext.get();
            long id = Marks.newId();
            task.set(id);
            Marks.begin(id);
            Marks.name(id, "task of stage_" + context.stageId() + ", partition " + context.partitionId());
            Marks.child(id, Messages.stage(context.stageId(), context.stageAttemptNumber()));
        }

        @Override
        public void onTaskSucceeded() {
            over();
        }

        @Override
        public void onTaskFailed(TaskFailedReason reason) {
            over();
        }

        private void over() {
            Long id = task.get();
            if (id != null) {
                task.remove();
                Marks.end(id);
            }
        }
    }
}
