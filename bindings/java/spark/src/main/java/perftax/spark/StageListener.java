// SPDX-License-Identifier: MIT OR Apache-2.0
package perftax.spark;

import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerJobEnd;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.scheduler.SparkListenerStageCompleted;
import org.apache.spark.scheduler.SparkListenerStageSubmitted;
import org.apache.spark.scheduler.StageInfo;
import perftax.tag.Marks;

/** Stages and jobs, as the driver hears of them: some milliseconds late. No thread of the driver's works on them meanwhile. */
final class StageListener extends SparkListener {
    private static void begin(long id, String name) {
        Marks.begin(id);
        Marks.name(id, name);
        Marks.switchTo(0);
    }

    @Override
    public void onJobStart(SparkListenerJobStart started) {
        begin(Messages.job(started.jobId()), "job");
        scala.collection.Iterator<StageInfo> stages = started.stageInfos().iterator();
        while (stages.hasNext()) {
            StageInfo stage = stages.next();
            Marks.child(Messages.stage(stage.stageId(), stage.attemptNumber()), Messages.job(started.jobId()));
        }
    }

    @Override
    public void onJobEnd(SparkListenerJobEnd ended) {
        Marks.end(Messages.job(ended.jobId()));
    }

    @Override
    public void onStageSubmitted(SparkListenerStageSubmitted submitted) {
        StageInfo stage = submitted.stageInfo();
        begin(Messages.stage(stage.stageId(), stage.attemptNumber()), "stage_" + stage.stageId() + " " + stage.name());
    }

    @Override
    public void onStageCompleted(SparkListenerStageCompleted completed) {
        StageInfo stage = completed.stageInfo();
        Marks.end(Messages.stage(stage.stageId(), stage.attemptNumber()));
    }
}
