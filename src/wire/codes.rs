//! Error codes of the Blob and Files services: one enum, with status, text and message of each.
//!
//! A code that is not here does not exist for leasefs: the server cannot send it, and the client keeps an unknown
//! text as [`ErrorCode::parse`]'s `None`.

use std::fmt;

macro_rules! codes {
    ($($name:ident $status:literal $message:literal)*) => {
        /// A code as in `x-ms-error-code` and in the body of an error.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum ErrorCode {
            $(#[doc = concat!($status, ": ", $message)] $name,)*
        }

        impl ErrorCode {
            /// Every code there is.
            pub const ALL: &[ErrorCode] = &[$(ErrorCode::$name,)*];

            /// The text on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $(ErrorCode::$name => stringify!($name),)* }
            }

            /// The HTTP status it is sent with. A read that only wanted something newer is told 304
            /// instead.
            pub fn status(self) -> u16 {
                match self { $(ErrorCode::$name => $status,)* }
            }

            /// The message unless there is a better one.
            pub fn message(self) -> &'static str {
                match self { $(ErrorCode::$name => $message,)* }
            }

            /// The code with this text.
            pub fn parse(text: &str) -> Option<Self> {
                match text {
                    $(stringify!($name) => Some(ErrorCode::$name),)*
                    // What newer SDKs and documents call it.
                    "DeletePending" => Some(ErrorCode::SMBDeletePending),
                    _ => None,
                }
            }
        }
    };
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

codes! {
    // Common to all services.
    AccountIsDisabled 403 "The specified account is disabled."
    AuthenticationFailed 403 "Server failed to authenticate the request. Make sure the value of Authorization header is formed correctly including the signature."
    AuthorizationFailure 403 "This request is not authorized to perform this operation."
    AuthorizationPermissionMismatch 403 "This request is not authorized to perform this operation using this permission."
    AuthorizationProtocolMismatch 403 "This request is not authorized to perform this operation using this protocol."
    AuthorizationResourceTypeMismatch 403 "This request is not authorized to perform this operation using this resource type."
    AuthorizationServiceMismatch 403 "This request is not authorized to perform this operation using this service."
    AuthorizationSourceIPMismatch 403 "This request is not authorized to perform this operation using this source IP."
    ConditionHeadersNotSupported 400 "Condition headers are not supported."
    ConditionNotMet 412 "The condition specified using HTTP conditional header(s) is not met."
    CorsPreflightFailure 403 "CORS not enabled or no matching rule found for this request."
    EmptyMetadataKey 400 "The key for one of the metadata key-value pairs is empty."
    FeatureNotYetSupportedForHierarchicalNamespaceAccounts 409 "The feature is not supported here."
    InsufficientAccountPermissions 403 "The account being accessed does not have sufficient permissions to execute this operation."
    InternalError 500 "The server encountered an internal error. Please retry the request."
    InvalidAuthenticationInfo 400 "Authentication information is not given in the correct format. Check the value of Authorization header."
    InvalidHeaderValue 400 "The value for one of the HTTP headers is not in the correct format."
    InvalidHttpVerb 400 "The HTTP verb specified is invalid - it is not recognized by the server."
    InvalidInput 400 "One of the request inputs is not valid."
    InvalidMd5 400 "The MD5 value specified in the request is invalid. The MD5 value must be 128 bits and Base64-encoded."
    InvalidMetadata 400 "The metadata specified is invalid. It has characters that are not permitted."
    InvalidQueryParameterValue 400 "Value for one of the query parameters specified in the request URI is invalid."
    InvalidRange 416 "The range specified is invalid for the current size of the resource."
    InvalidResourceName 400 "The specified resource name contains invalid characters."
    InvalidUri 400 "The requested URI does not represent any resource on the server."
    InvalidXmlDocument 400 "XML specified is not syntactically valid."
    InvalidXmlNodeValue 400 "The value for one of the XML nodes is not in the correct format."
    Md5Mismatch 400 "The MD5 value specified in the request did not match with the MD5 value calculated by the server."
    MetadataTooLarge 400 "The metadata specified exceeds the maximum permissible limit."
    MissingContentLengthHeader 411 "Content-Length HTTP header is missing."
    MissingRequiredHeader 400 "An HTTP header that's mandatory for this request is not specified."
    MissingRequiredQueryParameter 400 "A query parameter that's mandatory for this request is not specified."
    MissingRequiredXmlNode 400 "A required XML node was not specified in the request body."
    MultipleConditionHeadersNotSupported 400 "Multiple condition headers are not supported."
    NoAuthenticationInformation 401 "Server failed to authenticate the request. Please refer to the information in the www-authenticate header."
    OperationTimedOut 500 "The operation could not be completed within the permitted time."
    OutOfRangeInput 400 "One of the request inputs is out of range."
    OutOfRangeQueryParameterValue 400 "One of the query parameters specified in the request URI is outside the permissible range."
    RequestBodyTooLarge 413 "The request body is too large and exceeds the maximum permissible limit."
    RequestUrlFailedToParse 400 "The url in the request could not be parsed."
    ResourceAlreadyExists 409 "The specified resource already exists."
    ResourceNotFound 404 "The specified resource does not exist."
    ResourceTypeMismatch 409 "The specified resource type does not match the type of the existing resource."
    ServerBusy 503 "The server is busy."
    UnsupportedHeader 400 "One of the HTTP headers specified in the request is not supported."
    UnsupportedHttpVerb 405 "The resource doesn't support specified Http Verb."
    UnsupportedQueryParameter 400 "One of the query parameters specified in the request URI is not supported."
    UnsupportedXmlNode 400 "One of the XML nodes specified in the request body is not supported."
    APINotImplemented 501 "Current API is not implemented."
    InsufficientStorage 507 "There is no room left for the data."

    // Blob service.
    AppendPositionConditionNotMet 412 "The append position condition specified was not met."
    BlobAccessTierNotSupportedForAccountType 400 "The account type doesn't support specified blob access tier."
    BlobAlreadyExists 409 "The specified blob already exists."
    BlobArchived 409 "This operation is not permitted on an archived blob."
    BlobBeingRehydrated 409 "This operation is not permitted because the blob is being rehydrated."
    BlobImmutableDueToPolicy 409 "This operation is not permitted as the blob is immutable due to a policy."
    BlobIsSealed 409 "The specified blob is sealed and its contents can't be modified unless the blob is re-created after a delete."
    BlobModifiedWhileReading 409 "The blob has been modified while being read."
    BlobNotArchived 409 "Blob tier is not archived."
    BlobNotFound 404 "The specified blob does not exist."
    BlobOverwritten 409 "The blob has been recreated since the previous snapshot was taken."
    BlobTierInadequateForContentLength 409 "Specified blob tier size limit cannot be less than content length."
    BlobUsesCustomerSpecifiedEncryption 409 "The blob is encrypted with customer specified encryption, but it was not provided in the request."
    BlockCountExceedsLimit 409 "The committed block count cannot exceed the maximum limit of 50,000 blocks."
    BlockListTooLong 400 "The block list may not contain more than 50,000 blocks."
    BothCrc64AndMd5HeaderPresent 400 "Both x-ms-content-crc64 header and content-md5 header are present."
    CannotChangeToLowerTier 409 "A higher blob tier has already been explicitly set."
    CannotVerifyCopySource 500 "Could not verify the copy source within the specified time."
    ContainerAlreadyExists 409 "The specified container already exists."
    ContainerBeingDeleted 409 "The specified container is being deleted. Try operation later."
    ContainerDisabled 409 "The specified container has been disabled by the administrator."
    ContainerNotFound 404 "The specified container does not exist."
    CopyAcrossAccountsNotSupported 400 "The copy source account and destination account must be the same."
    CopyIdMismatch 409 "The specified copy ID did not match the copy ID for the pending copy operation."
    Crc64Mismatch 400 "The CRC64 value specified in the request did not match with the CRC64 value calculated by the server."
    DuplicateTagNames 400 "The tags specified contain duplicate names."
    EmptyTagName 400 "The name of one of the tag key-value pairs is empty."
    InfiniteLeaseDurationRequired 412 "The lease ID matched, but the specified lease must be an infinite-duration lease."
    InvalidBlobOrBlock 400 "The specified blob or block content is invalid."
    InvalidBlobTier 400 "The specified blob tier is invalid."
    InvalidBlobType 409 "The blob type is invalid for this operation."
    InvalidBlockId 400 "The specified block ID is invalid. The block ID must be Base64-encoded."
    InvalidBlockList 400 "The specified block list is invalid."
    InvalidOperation 400 "Invalid operation against a blob snapshot."
    InvalidPageRange 416 "The page range specified is invalid."
    InvalidSourceBlobType 409 "The copy source blob type is invalid for this operation."
    InvalidSourceBlobUrl 409 "The source URL for incremental copy operation must be valid Azure Storage blob URL."
    InvalidTag 400 "The tags specified are invalid. It contains characters that are not permitted."
    InvalidVersionForPageBlobOperation 400 "All operations on page blobs require at least version 2009-09-19."
    LeaseAlreadyBroken 409 "The lease has already been broken and cannot be broken again."
    LeaseAlreadyPresent 409 "There is already a lease present."
    LeaseIdMismatchWithBlobOperation 412 "The lease ID specified did not match the lease ID for the blob."
    LeaseIdMismatchWithContainerOperation 412 "The lease ID specified did not match the lease ID for the container."
    LeaseIdMismatchWithLeaseOperation 409 "The lease ID specified did not match the lease ID for the blob/container."
    LeaseIdMissing 412 "There is currently a lease on the blob/container and no lease ID was specified in the request."
    LeaseIsBreakingAndCannotBeAcquired 409 "The lease ID matched, but the lease is currently in breaking state and cannot be acquired until it is broken."
    LeaseIsBreakingAndCannotBeChanged 409 "The lease ID matched, but the lease is currently in breaking state and cannot be changed."
    LeaseIsBrokenAndCannotBeRenewed 409 "The lease ID matched, but the lease has been broken explicitly and cannot be renewed."
    LeaseLost 412 "A lease ID was specified, but the lease for the blob/container has expired."
    LeaseNotPresentWithBlobOperation 412 "There is currently no lease on the blob."
    LeaseNotPresentWithContainerOperation 412 "There is currently no lease on the container."
    LeaseNotPresentWithLeaseOperation 409 "There is currently no lease on the blob/container."
    MaxBlobSizeConditionNotMet 412 "The max blob size condition specified was not met."
    NoPendingCopyOperation 409 "There is currently no pending copy operation."
    NotInSealedState 409 "The append blob is not sealed."
    OperationNotAllowedOnIncrementalCopyBlob 409 "The specified operation is not allowed on an incremental copy blob."
    OperationNotAllowedOnRootBlob 400 "The specified operation is not allowed on a root blob."
    PendingCopyOperation 409 "There is currently a pending copy operation."
    PreviousSnapshotCannotBeNewer 400 "The prevsnapshot query parameter value cannot be newer than snapshot query parameter value."
    PreviousSnapshotNotFound 409 "The previous snapshot is not found."
    PreviousSnapshotOperationNotSupported 409 "Differential Get Page Ranges is not supported on the previous snapshot."
    SequenceNumberConditionNotMet 412 "The sequence number condition specified was not met."
    SequenceNumberIncrementTooLarge 409 "The sequence number increment cannot be performed because it would result in overflow of the sequence number."
    SnapshotCountExceeded 409 "The snapshot count against this blob has been exceeded."
    SnapshotOperationRateExceeded 409 "The rate of snapshot operations against this blob has been exceeded."
    SnapshotsPresent 409 "This operation is not permitted while the blob has snapshots."
    SourceConditionNotMet 412 "The source condition specified using HTTP conditional header(s) is not met."
    SystemInUse 409 "This blob is in use by the system."
    TagsTooLarge 400 "The tags specified exceed the maximum permissible limit."
    TargetConditionNotMet 412 "The target condition specified using HTTP conditional header(s) is not met."
    UnauthorizedBlobOverwrite 403 "This request is not authorized to perform blob overwrites."
    UnsatisfiableCondition 400 "The request includes an unsatisfiable condition for this operation."
    UnsupportedAccountType 409 "This operation isn't supported for this account type."

    // Files service.
    CannotDeleteFileOrDirectory 409 "The file or directory could not be deleted because it is in use by an SMB client."
    ClientCacheFlushDelay 408 "The specified resource state could not be flushed from an SMB client in the specified time."
    ContainerQuotaDowngradeNotAllowed 409 "The share quota cannot be reduced now."
    DeleteShareWhenSnapshotLeased 409 "Unable to delete share because one or more share snapshots have active leases."
    DirectoryNotEmpty 409 "The specified directory is not empty."
    FeatureVersionMismatch 400 "The operation for AzureSMB feature versions is not supported."
    FileInvalidPermission 400 "The specified file permission is not valid."
    FileInvalidPermissionKey 400 "The specified file permission key is not valid."
    FileLockConflict 409 "A portion of the specified file is locked by an SMB client."
    FileOpenBySmbClient 409 "The specified file or directory is open by an SMB client."
    HandleLimitExceeded 400 "The maximum number of open handles is exceeded."
    InvalidContinuationToken 400 "The continuation token is not valid."
    InvalidFileOrDirectoryPathName 400 "File or directory path is too long, or it has too many subdirectories."
    InvalidServerState 500 "The server state required to perform this operation is invalid."
    LeaseIdMismatchWithFileOperation 412 "The lease ID specified did not match the lease ID for the file."
    LeaseIdMismatchWithShareOperation 412 "The lease ID specified did not match the lease ID for the share."
    LeaseNotPresentWithFileOperation 412 "There is currently no lease on the file."
    LeaseNotPresentWithShareOperation 412 "There is currently no lease on the share."
    ParentNotFound 404 "The specified parent path does not exist."
    ReadOnlyAttribute 409 "The specified resource is read-only and cannot be modified at this time."
    SMBDeletePending 409 "The specified resource is marked for deletion by an SMB client."
    ShareAlreadyExists 409 "The specified share already exists."
    ShareBeingDeleted 409 "The specified share is being deleted. Try operation later."
    ShareDisabled 403 "The specified share is disabled by the administrator."
    ShareHasSnapshots 409 "The specified share has snapshots."
    ShareNotFound 404 "The specified share does not exist."
    ShareSizeLimitReached 400 "The maximum share size is reached."
    ShareSnapshotCountExceeded 409 "The total number of snapshots for the share is over the limit."
    ShareSnapshotInProgress 409 "An operation for this share is in progress, and it cannot be snapshotted at this time."
    ShareSnapshotNotFound 404 "The specified share snapshot does not exist."
    ShareSnapshotOperationNotSupported 400 "The specified operation is not supported on a share snapshot."
    SharingViolation 409 "The specified resource may be in use by an SMB client."
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn codes_are_read_back_and_fit_their_status() {
        for code in ErrorCode::ALL {
            assert_eq!(ErrorCode::parse(code.as_str()), Some(*code));
            assert!((400..=599).contains(&code.status()), "{code}");
            assert!(code.message().ends_with('.'), "{code}");
        }
        let texts: BTreeSet<_> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(texts.len(), ErrorCode::ALL.len());
        assert_eq!(ErrorCode::parse("NoSuchCode"), None);
    }

    #[test]
    fn codes_that_mounted_programs_cause_are_409() {
        for code in [ErrorCode::SharingViolation, ErrorCode::SMBDeletePending, ErrorCode::FileLockConflict] {
            assert_eq!(code.status(), 409);
        }
        assert_eq!(ErrorCode::parse("DeletePending"), Some(ErrorCode::SMBDeletePending));
    }
}
