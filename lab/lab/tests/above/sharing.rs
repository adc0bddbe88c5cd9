//! Several flows of one process.

use crate::bench::{race, told};

/// Jain's index: 1 when all have the same.
fn jain(shares: &[f64]) -> f64 {
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    shares.iter().sum::<f64>().powi(2) / (shares.len() as f64 * squares)
}

#[test]
fn two_and_ten_flows_of_one_process_share_a_link() {
    for (count, seconds) in [(2, 6), (10, 8)] {
        let name = "two_and_ten_flows_of_one_process_share_a_link";
        let scenario = format!(
            "name = 'sharing'\nseconds = {seconds}\ncontestants = ['copa@alcc:share=on']\n\
             [down]\nrate = '24 Mbit/s'\ndelay = '10ms'\nqueue = 'droptail:bytes=200kB'\n[up]\ndelay = '10ms'\n\
             [[flows]]\ncount = {count}\n"
        );
        let Some(runs) = race::<1>(name, &scenario) else { return };
        let shares = runs[0].shares();
        println!("{shares:.2?}: {:.3}", jain(&shares));
        assert_eq!(shares.len(), count);
        assert!(shares.iter().sum::<f64>() >= 0.7 * 24.0, "{}", told(&runs));
        assert!(jain(&shares) >= 0.9, "{shares:.2?}: {:.3}", jain(&shares));
    }
}
