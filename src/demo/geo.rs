//! Airports, and the distance and bearing between them. Pure.

/// An airport of the demo's small atlas.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Airport {
    pub(crate) code: &'static str,
    pub(crate) name: &'static str,
    pub(crate) city: &'static str,
    pub(crate) country: &'static str,
    pub(crate) latitude: f64,
    pub(crate) longitude: f64,
    /// Feet above the sea.
    pub(crate) elevation: i32,
    /// Magnetic heading of the main runway in tens of degrees, and its length in metres.
    pub(crate) runway: (u32, u32),
}

const fn airport(
    [code, name, city, country]: [&'static str; 4],
    (latitude, longitude): (f64, f64),
    elevation: i32,
    runway: (u32, u32),
) -> Airport {
    Airport { code, name, city, country, latitude, longitude, elevation, runway }
}

/// All of them, by code.
pub(crate) const AIRPORTS: [Airport; 14] = [
    airport(["AKL", "Auckland", "Auckland", "NZ"], (-37.008, 174.792), 23, (5, 3635)),
    airport(["BGO", "Bergen Flesland", "Bergen", "NO"], (60.293, 5.218), 170, (17, 2990)),
    airport(["CPT", "Cape Town", "Cape Town", "ZA"], (-33.965, 18.602), 151, (1, 3201)),
    airport(
        ["GIG", "Rio de Janeiro Galeão", "Rio de Janeiro", "BR"],
        (-22.81, -43.251),
        28,
        (10, 4000),
    ),
    airport(["HND", "Tokyo Haneda", "Tokyo", "JP"], (35.553, 139.781), 21, (16, 3360)),
    airport(["INN", "Innsbruck", "Innsbruck", "AT"], (47.26, 11.344), 1906, (8, 2000)),
    airport(["KEF", "Keflavík", "Reykjavík", "IS"], (63.985, -22.606), 171, (10, 3065)),
    airport(["LIS", "Lisbon Humberto Delgado", "Lisbon", "PT"], (38.774, -9.134), 374, (2, 3705)),
    airport(["NBO", "Nairobi Jomo Kenyatta", "Nairobi", "KE"], (-1.319, 36.928), 5330, (6, 4200)),
    airport(["SFO", "San Francisco", "San Francisco", "US"], (37.619, -122.375), 13, (28, 3618)),
    airport(["SIN", "Singapore Changi", "Singapore", "SG"], (1.359, 103.989), 22, (2, 4000)),
    airport(["SYD", "Sydney Kingsford Smith", "Sydney", "AU"], (-33.946, 151.177), 21, (16, 3962)),
    airport(["YVR", "Vancouver", "Vancouver", "CA"], (49.194, -123.184), 14, (8, 3503)),
    airport(["ZRH", "Zürich", "Zürich", "CH"], (47.464, 8.549), 1416, (16, 3700)),
];

/// The airport with this code, in any case.
pub(crate) fn find(code: &str) -> Option<&'static Airport> {
    AIRPORTS.iter().find(|airport| airport.code.eq_ignore_ascii_case(code))
}

/// Airports whose code, name, city or country holds the text.
pub(crate) fn search(text: &str) -> Vec<&'static Airport> {
    let text = text.to_lowercase();
    let holds = |field: &str| field.to_lowercase().contains(&text);
    let fits = |a: &&Airport| [a.code, a.name, a.city, a.country].into_iter().any(holds);
    AIRPORTS.iter().filter(fits).collect()
}

/// Great-circle distance in nautical miles.
pub(crate) fn distance(from: &Airport, to: &Airport) -> f64 {
    let (lat1, lat2) = (from.latitude.to_radians(), to.latitude.to_radians());
    let dlat = lat2 - lat1;
    let dlon = (to.longitude - from.longitude).to_radians();
    let a = (dlat / 2.0).sin().powi(2) + lat1.cos() * lat2.cos() * (dlon / 2.0).sin().powi(2);
    2.0 * 3440.065 * a.sqrt().asin()
}

/// Initial true course in degrees, 0 to 360.
pub(crate) fn course(from: &Airport, to: &Airport) -> f64 {
    let (lat1, lat2) = (from.latitude.to_radians(), to.latitude.to_radians());
    let dlon = (to.longitude - from.longitude).to_radians();
    let y = dlon.sin() * lat2.cos();
    let x = lat1.cos() * lat2.sin() - lat1.sin() * lat2.cos() * dlon.cos();
    y.atan2(x).to_degrees().rem_euclid(360.0)
}

/// The point a fraction of the way along the great circle: latitude and longitude in degrees.
pub(crate) fn along(from: &Airport, to: &Airport, fraction: f64) -> (f64, f64) {
    let angle = distance(from, to) / 3440.065;
    if angle == 0.0 {
        return (from.latitude, from.longitude);
    }
    let (lat1, lon1) = (from.latitude.to_radians(), from.longitude.to_radians());
    let (lat2, lon2) = (to.latitude.to_radians(), to.longitude.to_radians());
    let begin = ((1.0 - fraction) * angle).sin() / angle.sin();
    let end = (fraction * angle).sin() / angle.sin();
    let x = begin * lat1.cos() * lon1.cos() + end * lat2.cos() * lon2.cos();
    let y = begin * lat1.cos() * lon1.sin() + end * lat2.cos() * lon2.sin();
    let z = begin * lat1.sin() + end * lat2.sin();
    (z.atan2(x.hypot(y)).to_degrees(), y.atan2(x).to_degrees())
}

/// The weather of the demo: made from the place and an hour, the same every time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Weather {
    /// Direction the wind comes from, degrees.
    pub(crate) wind_from: u32,
    /// Knots.
    pub(crate) wind: u32,
    /// Degrees Celsius.
    pub(crate) temperature: i32,
    /// Hectopascal.
    pub(crate) pressure: u32,
    /// Sky, in the words of the code.
    pub(crate) sky: &'static str,
}

/// The weather at an airport, at an hour of the day (0 to 23).
pub(crate) fn weather(airport: &Airport, hour: u32) -> Weather {
    let seed = airport.code.bytes().fold(u64::from(hour) + 7, |seed, byte| {
        seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(u64::from(byte))
    });
    let pick = |shift: u32, below: u64| (seed >> shift) % below;
    let noon = f64::from(hour).mul_add(-1.0, 14.0).abs();
    let warmth =
        30.0 - airport.latitude.abs() * 0.45 - noon * 0.6 - f64::from(airport.elevation) / 500.0;
    Weather {
        wind_from: (pick(9, 36) * 10) as u32,
        wind: (4 + pick(17, 22)) as u32,
        temperature: warmth.round() as i32,
        pressure: (998 + pick(25, 32)) as u32,
        sky: ["CAVOK", "FEW035", "SCT040", "BKN025", "OVC012"][pick(33, 5) as usize],
    }
}

impl Weather {
    /// As a METAR report, for example `LIS 141200Z 32012KT CAVOK 21/11 Q1018`.
    pub(crate) fn metar(&self, code: &str, hour: u32) -> String {
        let temperature = |t: i32| if t < 0 { format!("M{:02}", -t) } else { format!("{t:02}") };
        format!(
            "{code} 14{hour:02}00Z {:03}{:02}KT {} {}/{} Q{}",
            self.wind_from,
            self.wind,
            self.sky,
            temperature(self.temperature),
            temperature(self.temperature - 8),
            self.pressure
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(code: &str) -> &'static Airport {
        find(code).expect("in the atlas")
    }

    #[test]
    fn the_distance_from_zurich_to_singapore_is_what_airlines_fly() {
        let miles = distance(at("ZRH"), at("SIN"));
        assert!((5540.0..5580.0).contains(&miles), "{miles}");
        assert!(distance(at("LIS"), at("LIS")).abs() < 1e-9);
    }

    #[test]
    fn a_great_circle_begins_and_ends_at_its_airports() {
        let (from, to) = (at("YVR"), at("HND"));
        let (lat, lon) = along(from, to, 1.0);
        assert!((lat - to.latitude).abs() < 1e-6 && (lon - to.longitude).abs() < 1e-6);
        assert!(along(from, to, 0.5).0 > 49.0, "it passes far north of both");
    }

    #[test]
    fn search_looks_at_every_field_and_codes_ignore_case() {
        assert_eq!(search("rey")[0].code, "KEF");
        assert_eq!(find("zrh").map(|a| a.city), Some("Zürich"));
    }

    #[test]
    fn the_weather_is_the_same_every_time() {
        assert_eq!(weather(at("NBO"), 12), weather(at("NBO"), 12));
        assert!(weather(at("KEF"), 3).metar("KEF", 3).starts_with("KEF 140300Z "));
    }
}
