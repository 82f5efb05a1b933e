//! The wire encodings of the API server, and their names in HTTP headers and in the configuration.

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// A wire encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// JSON.
    Json,
    /// Protobuf. Custom resources do not support it.
    Protobuf,
}

impl Encoding {
    /// All encodings.
    pub const ALL: [Self; 2] = [Self::Json, Self::Protobuf];

    /// Returns the name used in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Protobuf => "protobuf",
        }
    }

    /// Returns the encoding of a content type: protobuf, or JSON for everything else.
    pub fn of(content_type: &str) -> Self {
        let media_type = content_type.split(';').next().unwrap_or_default().trim();
        if media_type.eq_ignore_ascii_case(PROTOBUF) { Self::Protobuf } else { Self::Json }
    }

    /// Returns the encoding requested by `clientConnection`: the first one of `acceptContentTypes`, or `contentType`
    /// if that is empty (`client-go/rest/request.go`).
    pub fn wanted(accepted: &str, sent: &str) -> Self {
        let accepted = if accepted.is_empty() { sent } else { accepted };
        Self::of(accepted.split(',').next().unwrap_or_default())
    }

    /// Returns the `Accept` header for objects and lists. JSON is always accepted, for kinds without protobuf.
    pub fn accept(self) -> &'static str {
        match self {
            Self::Json => JSON,
            Self::Protobuf => "application/vnd.kubernetes.protobuf,application/json",
        }
    }

    /// Returns the `Accept` header for watches.
    pub fn accept_watch(self) -> &'static str {
        match self {
            Self::Json => JSON,
            Self::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch,application/json",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepted_content_types_take_precedence_over_content_type() {
        let protobuf = "application/vnd.kubernetes.protobuf";
        assert_eq!(Encoding::wanted("", protobuf), Encoding::Protobuf);
        assert_eq!(Encoding::wanted("", "application/json"), Encoding::Json);
        assert_eq!(Encoding::wanted("application/json", protobuf), Encoding::Json);
        assert_eq!(Encoding::wanted(&format!("application/json,{protobuf}"), protobuf), Encoding::Json);
        assert_eq!(Encoding::wanted(&format!("{protobuf}; q=1, */*"), ""), Encoding::Protobuf);
        assert_eq!(Encoding::of("Application/vnd.kubernetes.protobuf;stream=watch"), Encoding::Protobuf);
        assert_eq!(Encoding::of(""), Encoding::Json);
    }
}
