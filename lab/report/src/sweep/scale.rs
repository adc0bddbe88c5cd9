//! Numbers as colours: viridis, which is ordered by lightness, also for those who do not see all hues, and in print.

/// Viridis by Nathaniel Smith, Stéfan van der Walt and Eric Firing (CC0), which `paceline.plots` uses as well: 33 of its colours, the
/// same distance from each other; between them we go straight.
const VIRIDIS: [u32; 33] = [
    0x44_01_54, 0x47_0d_60, 0x48_18_6a, 0x48_23_74, 0x47_2d_7b, 0x45_37_81, 0x42_40_86, 0x3e_49_89, 0x3b_52_8b,
    0x37_5b_8d, 0x33_63_8d, 0x2f_6b_8e, 0x2c_72_8e, 0x29_7a_8e, 0x26_82_8e, 0x23_89_8e, 0x21_91_8c, 0x1f_98_8b,
    0x1f_a0_88, 0x22_a7_85, 0x28_ae_80, 0x32_b6_7a, 0x3f_bc_73, 0x4e_c3_6b, 0x5e_c9_62, 0x70_cf_57, 0x84_d4_4b,
    0x98_d8_3e, 0xad_dc_30, 0xc2_df_23, 0xd8_e2_19, 0xec_e5_1b, 0xfd_e7_25,
];

/// From how many times the smallest value on steps are equal factors rather than equal differences (our choice: an order of
/// magnitude and more; below it, small values can be distinguished on a linear scale).
const LOG_FROM: f64 = 20.0;

/// A colour.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Colour([f64; 3]);

impl Colour {
    /// At a share of the scale, 0 to 1.
    pub(super) fn at(share: f64) -> Self {
        let place = share.clamp(0.0, 1.0) * (VIRIDIS.len() - 1) as f64;
        let low = (place.floor() as usize).min(VIRIDIS.len() - 2);
        let part = place - low as f64;
        let channel = |colour: u32, index: usize| f64::from(colour >> (16 - 8 * index) & 0xff);
        Self([0, 1, 2].map(|i| channel(VIRIDIS[low], i) * (1.0 - part) + channel(VIRIDIS[low + 1], i) * part))
    }

    /// As `#rrggbb`.
    pub(super) fn hex(self) -> String {
        let [r, g, b] = self.0.map(|channel| channel.round() as u8);
        format!("#{r:02x}{g:02x}{b:02x}")
    }

    /// The class of text on it: black or white, whatever contrasts more. It is always at least 4.5:1 (WCAG 2.2, success criterion
    /// 1.4.3), since one of the two reaches the root of 21 on any colour.
    pub(super) fn text(self) -> &'static str {
        if self.contrast(0.0) >= self.contrast(1.0) { "on-light" } else { "on-dark" }
    }

    /// With a grey of this relative luminance (WCAG 2.2).
    fn contrast(self, other: f64) -> f64 {
        let part = |channel: f64| {
            let share = channel.round() / 255.0;
            if share <= 0.04045 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
        };
        let [r, g, b] = self.0.map(part);
        let own = 0.2126 * r + 0.7152 * g + 0.0722 * b;
        (own.max(other) + 0.05) / (own.min(other) + 0.05)
    }
}

/// From the smallest to the largest value of a figure.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) log: bool,
}

impl Range {
    /// Around these values; `None` without any, or where all are the same.
    pub(super) fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let (low, high) = values
            .filter(|value| value.is_finite())
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        (high > low).then(|| Self { low, high, log: low > 0.0 && high / low > LOG_FROM })
    }

    /// Where a value lies, 0 to 1.
    pub(super) fn share(&self, value: f64) -> f64 {
        if self.log {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        }
    }

    /// The value at a share.
    pub(super) fn value(&self, share: f64) -> f64 {
        if self.log { self.low * (self.high / self.low).powf(share) } else { self.low + share * (self.high - self.low) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_in_every_colour_of_the_scale_can_be_read() {
        for step in 0..=1000 {
            let colour = Colour::at(f64::from(step) / 1000.0);
            let grey = if colour.text() == "on-light" { 0.0 } else { 1.0 };
            assert!(colour.contrast(grey) >= 4.5, "{}: {:.2}", colour.hex(), colour.contrast(grey));
        }
        assert_eq!([Colour::at(0.0).hex(), Colour::at(1.0).hex()], ["#440154", "#fde725"]);
        assert_eq!([Colour::at(0.0).text(), Colour::at(1.0).text()], ["on-dark", "on-light"]);
    }

    #[test]
    fn more_is_lighter() {
        let lightness = |step: i32| Colour::at(f64::from(step) / 100.0).contrast(0.0);
        assert!((0..100).all(|step| lightness(step) < lightness(step + 1)));
    }

    #[test]
    fn a_wide_range_has_equal_factors() {
        let wide = Range::of([1.0, 10.0, 100.0].into_iter()).unwrap();
        assert!(wide.log && (wide.share(10.0) - 0.5).abs() < 1e-9 && (wide.value(0.5) - 10.0).abs() < 1e-9);
        let narrow = Range::of([0.0, 10.0, f64::NAN].into_iter()).unwrap();
        assert!(!narrow.log && (narrow.share(5.0) - 0.5).abs() < 1e-9);
        assert!(Range::of([2.0, 2.0].into_iter()).is_none() && Range::of(std::iter::empty()).is_none());
    }
}
