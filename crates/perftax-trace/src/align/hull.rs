//! The points that lines can touch which lie on one side of all.

/// The points that a line can touch that lies below all (`side` 1) or above all (-1), in order, with the slopes from each to the next.
#[derive(Clone, Debug)]
pub struct Hull {
    points: Vec<(f64, f64)>,
    slopes: Vec<f64>,
    side: f64,
}

impl Hull {
    /// Of points in order.
    pub fn of(points: impl IntoIterator<Item = (f64, f64)>, side: f64) -> Self {
        let mut hull: Vec<(f64, f64)> = Vec::new();
        for (x, y) in points {
            // Of two at one time the nearer one bounds.
            match hull.last() {
                Some(last) if last.0 == x && side * (last.1 - y) <= 0.0 => continue,
                Some(last) if last.0 == x => drop(hull.pop()),
                _ => {}
            }
            while let [.., (ax, ay), (bx, by)] = hull[..] {
                let turns = (bx - ax) * (y - ay) - (by - ay) * (x - ax);
                if side * turns > 0.0 {
                    break;
                }
                hull.pop();
            }
            hull.push((x, y));
        }
        let slopes = hull.windows(2).map(|two| (two[1].1 - two[0].1) / (two[1].0 - two[0].0)).collect();
        Self { points: hull, slopes, side }
    }

    /// Their times.
    pub fn times(&self) -> impl Iterator<Item = f64> {
        self.points.iter().map(|(x, _)| *x)
    }

    /// The point that the line of a slope touches.
    pub fn touched(&self, slope: f64) -> (f64, f64) {
        #[cfg(test)]
        LOOKED_AT.with(|looked_at| looked_at.set(looked_at.get() + 1));
        // Slopes grow along a lower hull, and fall along an upper one.
        let at = self.slopes.partition_point(|next| self.side * (next - slope) < 0.0);
        self.points[at]
    }

    /// The slope of the hull at a time: of the lines that touch it the one of this slope is nearest to the points there.
    pub fn slope(&self, x: f64) -> Result<f64, Beyond> {
        match self.points.partition_point(|point| point.0 < x) {
            0 => Err(Beyond::Before),
            at => self.slopes.get(at - 1).copied().ok_or(Beyond::After),
        }
    }
}

/// On which side of all points a time is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beyond {
    /// Before the first one.
    Before,
    /// After the last one.
    After,
}

#[cfg(test)]
thread_local! {
    /// How often a slope was looked for: what a difference costs.
    pub static LOOKED_AT: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}
